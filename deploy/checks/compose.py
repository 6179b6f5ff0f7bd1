"""Checks the compose file: Baler accepts its configuration, runs confined, and the application is in its network.

usage: compose.py PATH_TO_BALER
"""

import os
import subprocess
import sys

import yaml

HERE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "compose")

with open(os.path.join(HERE, "compose.yaml"), encoding="utf-8") as file:
    services = yaml.safe_load(file)["services"]
baler, app = services["baler"], services["app"]
failures = []
for holds, text in (
    (os.path.exists(os.path.join(HERE, baler["build"]["context"], "Dockerfile")), "the Dockerfile is not in the build's context"),
    (baler["read_only"] and baler["cap_drop"] == ["ALL"] and "no-new-privileges:true" in baler["security_opt"], "Baler is not confined"),
    ("ports" not in baler, "a port is open to the host"),
    (app["network_mode"] == "service:baler", "the application is not in Baler's network"),
    (app["depends_on"]["baler"]["condition"] == "service_healthy", "the application does not wait for Baler"),
    (app["environment"]["OPENAI_BASE_URL"] == "http://127.0.0.1:4141/v1", "the application does not use Baler"),
    (baler["volumes"] == ["./baler.toml:/etc/baler/baler.toml:ro"] and baler["command"][-1] == "/etc/baler/baler.toml", "the configuration is not mounted"),
):
    if not holds:
        failures.append(text)
said = subprocess.run([sys.argv[1], "check", os.path.join(HERE, "baler.toml")], env={}, capture_output=True, text=True)
if said.returncode:
    failures.append(said.stderr)
print(*failures, f"compose: {len(failures)} problems", sep="\n")
sys.exit(bool(failures))
