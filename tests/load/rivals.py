"""Other proxies for `compare --rivals`: how each is installed, started and asked. What cannot be installed here is skipped."""

import json
import pathlib
import subprocess
import sys

HOME = pathlib.Path.home() / ".cache/baler-ci/rivals"
# Each in an environment of its own: their dependencies do not go together.
LITELLM = HOME / "litellm"
HEADROOM = HOME / "headroom"
PORTKEY = HOME / "portkey"
INSTALL_SECONDS = 600


def pip(package, folder):
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, capture_output=True)
    subprocess.run([str(folder / "bin/pip"), "install", "-q", package], check=True, capture_output=True, timeout=INSTALL_SECONDS)


def npm(package, folder):
    folder.mkdir(parents=True, exist_ok=True)
    command = ["npm", "install", "--silent", "--no-fund", "--no-audit", "--prefix", str(folder), package]
    subprocess.run(command, check=True, capture_output=True, timeout=INSTALL_SECONDS)


def litellm(work, port, upstream, workers):
    config = work / "litellm.yaml"
    model = {"model": "openai/gpt-4o", "api_base": upstream, "api_key": "x"}
    config.write_text(json.dumps({"model_list": [{"model_name": "gpt-4o", "litellm_params": model}]}))
    command = [str(LITELLM / "bin/litellm"), "--config", str(config), "--host", "127.0.0.1", "--port", str(port)]
    # Gunicorn waits for workers that take long to start. The list of prices in the package will do.
    return [*command, "--num_workers", str(workers), "--run_gunicorn"], {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}


def headroom(_work, port, upstream, _workers):
    return [str(HEADROOM / "bin/headroom"), "proxy", "--host", "127.0.0.1", "--port", str(port)], {
        "OPENAI_TARGET_API_URL": upstream.removesuffix("/v1"), "HEADROOM_TELEMETRY": "off"}


def portkey(_work, port, _upstream, _workers):
    server = PORTKEY / "node_modules/@portkey-ai/gateway/build/start-server.js"
    return ["node", str(server), f"--port={port}", "--headless"], {"TRUSTED_CUSTOM_HOSTS": "127.0.0.1,localhost"}


# Name, how it is installed, its package, where to, its program, how it is started: (work, port, upstream, workers) gives command and
# environment.
RIVALS = (
    ("LiteLLM", pip, "litellm[proxy]", LITELLM, "bin/litellm", litellm),
    ("Headroom", pip, "headroom-ai[proxy]", HEADROOM, "bin/headroom", headroom),
    ("Portkey", npm, "@portkey-ai/gateway", PORTKEY, "node_modules/@portkey-ai/gateway", portkey),
)


def headers(name, upstream):
    """Fields that a request to this one has besides the usual ones."""
    return {"x-portkey-provider": "openai", "x-portkey-custom-host": upstream} if name == "Portkey" else {}


def installed():
    """Name and start of each rival that is here, or can be."""
    for name, install, package, folder, program, start in RIVALS:
        try:
            if not (folder / program).exists():
                install(package, folder)
        except (OSError, subprocess.SubprocessError) as error:
            print(f"SKIPPED: {name} cannot be installed here: {error}", file=sys.stderr)
            continue
        yield name, start

