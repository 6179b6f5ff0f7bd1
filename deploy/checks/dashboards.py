"""Checks the Grafana dashboards: they are what deploy/grafana/build writes, and every query is PromQL over metrics that exist.

usage: dashboards.py FILE_WITH_METRICS [--live PATH_TO_BALER]
environment: PICTURES, a folder for pictures of both

With --live a Prometheus scrapes a Baler under load, and every query has to return figures. What cAdvisor and kube-state-metrics
would say about the pod is played from /proc.
"""

import http.server
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request

DEPLOY = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
GRAFANA = os.path.join(DEPLOY, "grafana")
NAMES = ("owner", "operator")
FOREIGN = ("container_memory_working_set_bytes", "kube_pod_init_container_resource_limits", "kube_pod_container_resource_limits", "kube_pod_init_container_status_restarts_total", "kube_pod_container_status_restarts_total")
LOAD_SECONDS = int(os.environ.get("LOAD_SECONDS", "45"))


def panels(name):
    with open(os.path.join(GRAFANA, f"{name}.json"), encoding="utf-8") as file:
        board = json.load(file)
    for panel in board["panels"]:
        if panel["type"] != "row":
            yield panel


def filled(expression):
    """The query with "All" in every variable."""
    expression = expression.replace("$__rate_interval", "1m").replace("$cache_read", "0.1")
    return re.sub(r"\$(namespace|job|policy|model|mode)\b", ".*", expression)


def queries():
    for name in NAMES:
        for panel in panels(name):
            for target in panel["targets"]:
                yield f"{name}: {panel['title']}", filled(target["expr"])


def static(metrics):
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copy(os.path.join(GRAFANA, "build"), folder)
        subprocess.run([sys.executable, copy], check=True)
        for name in NAMES:
            with open(os.path.join(folder, f"{name}.json"), "rb") as made, open(os.path.join(GRAFANA, f"{name}.json"), "rb") as kept:
                if made.read() != kept.read():
                    failures.append(f"{name}.json is not what deploy/grafana/build writes")
        known = set(re.findall(r"(?m)^# TYPE (baler_[a-z_]+) ", metrics))
        rules = []
        for number, (title, query) in enumerate(queries()):
            if "$" in query:
                failures.append(f"{title}: an unknown variable: {query}")
            for metric in re.findall(r"\bbaler_[a-z_]+", query):
                if metric not in known and metric.removesuffix("_bucket") not in known:
                    failures.append(f"{title}: no such metric: {metric}")
            rules.append({"record": f"query:{number}", "expr": query})
        # The parser of Prometheus itself: as rules.
        path = os.path.join(folder, "rules.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"groups": [{"name": "queries", "rules": rules}]}, file)
        said = subprocess.run(["promtool", "check", "rules", path], capture_output=True, text=True)
        if said.returncode:
            failures.append(said.stderr)
    for name in NAMES:
        ids = [panel["id"] for panel in panels(name)]
        if len(set(ids)) != len(ids) or any(not panel["description"] for panel in panels(name)):
            failures.append(f"{name}: panels need different ids and a description")
    return len(rules), failures


class Played(http.server.BaseHTTPRequestHandler):
    """What cAdvisor and kube-state-metrics would say."""

    pid = 0

    def do_GET(self):
        with open(f"/proc/{self.pid}/statm", encoding="ascii") as file:
            resident = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        pod = 'namespace="shop",pod="assistant-0",container="baler"'
        body = f'container_memory_working_set_bytes{{{pod}}} {resident}\nkube_pod_init_container_resource_limits{{{pod},resource="memory"}} {640 << 20}\nkube_pod_init_container_status_restarts_total{{{pod}}} 0\n'.encode()
        self.send_response(200)
        self.send_header("content-type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Prometheus:
    """A Prometheus that scrapes the targets every second, with the rules of deploy/prometheus."""

    def __init__(self, folder, targets):
        config = os.path.join(folder, "prometheus.json")
        scrapes = [{"job_name": job, "static_configs": [{"targets": [address], "labels": labels}]} for job, address, labels in targets]
        with open(config, "w", encoding="utf-8") as file:
            json.dump({"global": {"scrape_interval": "1s", "evaluation_interval": "5s"}, "scrape_configs": scrapes, "rule_files": [os.path.join(DEPLOY, "prometheus", "baler.rules.yaml")]}, file)
        self.log = open(os.path.join(folder, "prometheus.log"), "w+", encoding="utf-8")
        with http.server.HTTPServer(("127.0.0.1", 0), Played) as free:
            self.url = f"http://127.0.0.1:{free.server_address[1]}"
        command = ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder}/data", f"--web.listen-address={self.url[7:]}", "--log.level=warn"]
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log)
        until = time.monotonic() + 60
        while True:
            try:
                urllib.request.urlopen(f"{self.url}/-/ready", timeout=2).read()
                return
            except OSError:
                if time.monotonic() > until or self.process.poll() is not None:
                    self.log.seek(0)
                    raise SystemExit("Prometheus does not come up:\n" + self.log.read()) from None
                time.sleep(0.1)

    def ask(self, path, **query):
        with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(query)}", timeout=30) as answer:
            return json.load(answer)["data"]

    def stop(self):
        self.process.kill()
        self.process.wait()


def live(program):
    from load import CONFIG, run
    from processes import Baler

    upstream = subprocess.Popen([sys.executable, os.path.join(DEPLOY, "..", "tests", "e2e", "upstream.py")], stdout=subprocess.PIPE, text=True)
    failures, count = [], 0
    with tempfile.TemporaryDirectory() as folder:
        config = os.path.join(folder, "baler.toml")
        with open(config, "w", encoding="utf-8") as file:
            # With a store, so that its panels have figures, too.
            store = f'[ledger]\nurl = "redb://{folder}/ledger.redb"\n'
            file.write(store + CONFIG.replace('level = "warn"', 'level = "info"'))
        prometheus = None
        try:
            address = upstream.stdout.readline().split()[0]
            with Baler(program, "--config", config, upstream=address) as baler:
                Played.pid = baler.process.pid
                played = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Played)
                threading.Thread(target=played.serve_forever, daemon=True).start()
                labels = {"namespace": "shop"}
                prometheus = Prometheus(folder, [("assistant", baler.admin[7:], labels), ("cadvisor", f"127.0.0.1:{played.server_address[1]}", {})])
                start = time.time()
                run(baler.url, LOAD_SECONDS)
                # Series that begin with the load need a second scrape.
                time.sleep(2)
                end = time.time()
                for title, query in queries():
                    count += 1
                    series = prometheus.ask("query", query=query, time=end)["result"]
                    if not any(math.isfinite(float(s["value"][1])) for s in series):
                        failures.append(f"{title}: no figures: {query}")
                targets = prometheus.ask("targets")["activeTargets"]
                failures += [f"{t['labels']['job']} is not scraped: {t['lastError']}" for t in targets if t["health"] != "up"]
                groups = prometheus.ask("rules")["groups"]
                failures += [f"rule {r['name']}: {r.get('lastError')}" for g in groups for r in g["rules"] if r["health"] != "ok"]
                if folder_for := os.environ.get("PICTURES"):
                    from pictures import draw

                    for name in NAMES:
                        draw(prometheus, list(panels(name)), filled, start, end, os.path.join(folder_for, f"{name}.png"))
        finally:
            upstream.kill()
            if prometheus:
                prometheus.stop()
    return count, failures


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        count, failures = static(file.read())
    if "--live" in sys.argv:
        count, more = live(sys.argv[-1])
        failures += more
    print(*failures, f"dashboards: {count} queries looked at, {len(failures)} problems", sep="\n")
    sys.exit(1 if failures or count < 40 else 0)


main()
