"""Checks what deploy/ has for Kubernetes: schemas, configuration, security, and that the parts fit together.

usage: manifests.py PATH_TO_BALER
"""

import os
import subprocess
import sys
import tempfile

import helm_python.chart as helm
import kubernetes_validate
import yaml
from helm_python.errors import HelmError
from rendering import CHART, DEPLOY, cases, chart, everything, example_chart, kustomize

NATIVE = ("1.29", "1.30", "1.31", "1.32", "1.33", "1.34", "1.35", "1.36", "1.37")
BEFORE = ("1.27", "1.28", *NATIVE)
# Kinds of the Prometheus operator: no schemas of them are at hand, so that their parts are checked here.
OPERATOR_KINDS = ("PodMonitor", "ServiceMonitor", "PrometheusRule")
# What the container has to be told about itself, and the value that must not differ.
SECURITY = {
    "runAsNonRoot": True,
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
ADDRESSES = {
    "OPENAI_BASE_URL": "http://127.0.0.1:4141/v1",
    "OPENAI_API_BASE": "http://127.0.0.1:4141/v1",
    "AZURE_OPENAI_ENDPOINT": "http://127.0.0.1:4141",
}

# What stands for the values of secrets that are variables.
SECRET_VALUES = {"BALER_LEDGER__URL": "redis://cache:6379/0", "BALER_LEDGER__SECRET": "0123456789abcdef" * 3}

passed, failures = 0, []


def check(holds, text):
    global passed
    if holds:
        passed += 1
    else:
        failures.append(text)
        print(f"FAIL {text}", flush=True)


def pod_of(resource):
    """The pod template's metadata and spec, if the resource has one."""
    spec = resource.get("spec", {})
    template = spec.get("jobTemplate", {}).get("spec", {}).get("template") or spec.get("template")
    return template if isinstance(template, dict) and "spec" in template else None


def containers(pod):
    return pod["spec"].get("initContainers", []) + pod["spec"].get("containers", [])


def title(rendering, resource):
    return f"{rendering.name}: {resource['kind']} {resource['metadata']['name']}"


def schemas(rendering):
    for resource in rendering.resources:
        if resource["kind"] in OPERATOR_KINDS:
            continue
        for version in rendering.versions:
            try:
                used = kubernetes_validate.validate(resource, version, strict=True)
                check(used == version, f"{title(rendering, resource)}: no schema for {version}")
            except kubernetes_validate.ValidationError as error:
                check(False, f"{title(rendering, resource)} against {version}: {error}")


def offences(pod, container):
    """What a container lacks of the Pod Security Standard "restricted", and some more."""
    both = {**pod["spec"].get("securityContext", {}), **container.get("securityContext", {})}
    resources = container.get("resources", {})
    for key, value in SECURITY.items():
        if both.get(key) != value:
            yield f"{key} is {both.get(key)}, not {value}"
    if both.get("runAsUser", 0) <= 0:
        yield "no numeric user"
    if not {"cpu", "memory"} <= set(resources.get("requests", {})):
        yield "no requests"
    if "memory" not in resources.get("limits", {}):
        yield "no memory limit"
    if "cpu" in resources.get("limits", {}):
        yield "a CPU limit throttles"
    if ":" not in container["image"] or container["image"].endswith(":latest"):
        yield "image without a tag"
    if any("hostPath" in volume for volume in pod["spec"].get("volumes", [])) or pod["spec"].get("hostNetwork"):
        yield "uses the host"


def probes(name, container):
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    check("baler-admin" in ports, f"{name}: no port baler-admin")
    for probe, path in (("readinessProbe", "/readyz"), ("livenessProbe", "/livez")):
        get = container.get(probe, {}).get("httpGet", {})
        check(get == {"path": path, "port": "baler-admin"}, f"{name}: {probe} is {get}")
    check(container["livenessProbe"]["failureThreshold"] * container["livenessProbe"]["periodSeconds"] >= 30, f"{name}: liveness judges too fast")


def sidecar(rendering, resource, pod, baler):
    """Order, addresses and time to stop of a pod that has Baler beside an application."""
    name = title(rendering, resource)
    init = [container["name"] for container in pod["spec"].get("initContainers", [])]
    if "baler" in init:
        check(baler.get("restartPolicy") == "Always", f"{name}: an init container that would have to end")
        check("startupProbe" in baler, f"{name}: the application would not wait for Baler")
    else:
        check(pod["spec"]["containers"][0] is baler, f"{name}: Baler is not started first")
        check(resource["kind"] not in ("Job", "CronJob"), f"{name}: would never end")
    check(pod["spec"].get("terminationGracePeriodSeconds", 30) > 25, f"{name}: no time to drain")
    environment = {e["name"]: e.get("value") for e in baler.get("env", [])}
    check(not set(environment) & set(ADDRESSES), f"{name}: Baler would forward to itself")
    check(environment.get("BALER_LISTEN__ADDRESS", "127.0.0.1:4141") == "127.0.0.1:4141", f"{name}: the data port is open")
    check("4141" not in str(baler["ports"]), f"{name}: the data port is listed")
    for container in pod["spec"]["containers"]:
        if container is not baler:
            given = {e["name"]: e.get("value") for e in container.get("env", [])}
            # The single manifest shows the one that most libraries read.
            for key, value in ADDRESSES.items() if "kubernetes/" not in rendering.name else [("OPENAI_BASE_URL", ADDRESSES["OPENAI_BASE_URL"])]:
                check(given.get(key) == value, f"{name}: {container['name']}: {key} is {given.get(key)}")


def secret_files(pod, container):
    """The paths at which a container finds the items of secrets."""
    secrets = {v["name"]: v["secret"].get("items", []) for v in pod["spec"].get("volumes", []) if "secret" in v}
    return {f"{m['mountPath']}/{item['path']}" for m in container.get("volumeMounts", []) for item in secrets.get(m["name"], [])}


def configuration(rendering, resource, pod, container, baler):
    """The mounted ConfigMap exists, and Baler accepts it under the container's environment."""
    name = title(rendering, resource)
    mounted = [v["configMap"]["name"] for v in pod["spec"]["volumes"] if v["name"] == "baler-config"]
    maps = {r["metadata"]["name"]: r["data"]["baler.toml"] for r in rendering.resources if r["kind"] == "ConfigMap" and "baler.toml" in r.get("data", {})}
    check(mounted and mounted[0] in maps, f"{name}: mounts {mounted}, there is {list(maps)}")
    if not mounted or mounted[0] not in maps:
        return
    # Files of secrets are mounted, not here; Baler judges the rest.
    environment = {e["name"]: e.get("value", SECRET_VALUES.get(e["name"])) for e in container.get("env", [])}
    environment = {key: value for key, value in environment.items() if value is not None}
    files = {variable: environment.pop(variable) for variable in list(environment) if variable.endswith("_FILE")}
    there = secret_files(pod, container)
    check(set(files.values()) == there, f"{name}: secrets are mounted as {there}, variables name {files}")
    with tempfile.NamedTemporaryFile("w", suffix=".toml", encoding="utf-8") as file:
        file.write(maps[mounted[0]])
        file.flush()
        said = subprocess.run([baler, "check", file.name], env=environment, capture_output=True, text=True)
        check(said.returncode == 0, f"{name}: baler check: {said.stderr}")


def references(rendering):
    """Services, monitors, policies and autoscalers select something, and name ports that are there."""
    pods = [(pod.get("metadata", {}).get("labels", {}), {p["name"] for c in containers(pod) for p in c.get("ports", [])}) for r in rendering.resources if (pod := pod_of(r))]
    services = [r for r in rendering.resources if r["kind"] == "Service"]

    def matching(labels):
        return [ports for have, ports in pods if labels.items() <= have.items()]

    for resource in rendering.resources:
        name, kind, spec = title(rendering, resource), resource["kind"], resource.get("spec", {})
        if kind == "Service" and rendering.name.startswith("helm"):
            found = matching(spec["selector"])
            check(found and all(p["targetPort"] in found[0] for p in spec["ports"]), f"{name}: selects no such port")
        elif kind in ("PodDisruptionBudget", "Deployment", "StatefulSet"):
            check(matching(spec["selector"]["matchLabels"]), f"{name}: selects nothing")
        elif kind == "HorizontalPodAutoscaler":
            scaled = [r for r in rendering.resources if r["kind"] == "Deployment" and r["metadata"]["name"] == spec["scaleTargetRef"]["name"]]
            check(scaled and "replicas" not in scaled[0]["spec"], f"{name}: scales nothing, or against fixed replicas")
        elif kind == "PodMonitor" and pods:
            found = matching(spec["selector"].get("matchLabels", {}))
            check(found and spec["podMetricsEndpoints"][0]["port"] in found[0], f"{name}: selects no such port")
        elif kind == "ServiceMonitor":
            wanted = spec["selector"]["matchLabels"].items()
            found = [s for s in services if wanted <= s["metadata"]["labels"].items()]
            check(len(found) == 1 and spec["endpoints"][0]["port"] in {p["name"] for p in found[0]["spec"]["ports"]}, f"{name}: selects {len(found)} services")
        elif kind == "NetworkPolicy" and pods:
            found = matching(spec["podSelector"]["matchLabels"])
            check(found, f"{name}: selects nothing")
            admin = [rule for rule in spec.get("ingress", []) if any(p["port"] in ("baler-admin", 4142) for p in rule.get("ports", []))]
            check(all(rule.get("from") for rule in admin), f"{name}: metrics are open to everyone")
        elif kind == "PrometheusRule":
            with open(os.path.join(DEPLOY, "prometheus", "baler.rules.yaml"), encoding="utf-8") as file:
                check(spec == yaml.safe_load(file), f"{name}: differs from baler.rules.yaml")


def rolls():
    """A change of the configuration changes the pods."""
    base, other = (next(r for r in chart(CHART, {"config": c}) if r["kind"] == "Deployment") for c in ('[log]\nlevel = "info"\n', '[log]\nlevel = "warn"\n'))
    check(base["spec"]["template"] != other["spec"]["template"], "helm/baler: a change of the configuration does not roll the pods")
    before, after = (next(r for r in example_chart({"baler": {"config": c}}) if r["kind"] == "Deployment") for c in ("[log]\n", '[log]\nlevel = "warn"\n'))
    check(before["spec"]["template"] != after["spec"]["template"], "helm/example: a change of the configuration does not roll the pods")
    maps = {[r["metadata"]["name"] for r in kustomize(k) if r["kind"] == "ConfigMap"][0] for k in ("native", "before-1.29")}
    check(len(maps) == 2 and all(name != "baler" for name in maps), "kustomize: the ConfigMap's name does not follow its content")


def unmodified():
    """The component leaves opted-out workloads and Jobs before 1.29 as they are."""
    old = {r["kind"]: r for r in kustomize("before-1.29")}
    for kind in ("Job", "CronJob"):
        check("127.0.0.1:4141" not in str(old[kind]) and "baler" not in str(old[kind]), f"kustomize before 1.29: {kind} was changed")
    new = [r for r in kustomize("native") if pod_of(r)]
    check({r["kind"] for r in new} == {"Deployment", "StatefulSet", "Job", "CronJob"}, "kustomize: not every kind")
    for resource in new:
        check(any(c["name"] == "baler" for c in pod_of(resource)["spec"].get("initContainers", [])), f"kustomize: {resource['kind']} has no sidecar")


def refused():
    """Values that the chart must refuse."""
    for values in (
        {"replicas": 2},
        {"gateway": {"replicas": "two"}},
        {"image": {"digest": "sha256:short"}},
        {"ports": {"data": 70000}},
        {"bindAddress": "localhost"},
        {"ledger": {"urlSecret": {"name": "only"}}},
        {"listen": {"authTokensSecret": {"key": "only"}}},
        {"gateway": {"service": {"type": "Cluster"}}},
        {"config": ""},
        {"gateway": {"autoscaling": {"enabled": True, "cpuUtilization": 0, "requestsInFlight": 0}}},
    ):
        try:
            chart(CHART, values)
            check(False, f"helm/baler accepts {values}")
        except HelmError:
            check(True, "")


def main():
    baler = sys.argv[1]
    for name, values in cases():
        problems = [m for m in helm.lint(CHART, values, strict=True)["messages"] if m["severity"] > 1]
        check(not problems, f"helm/baler: {name}: {problems}")
    for rendering in everything(NATIVE, BEFORE):
        before = passed
        check(rendering.resources, f"{rendering.name}: nothing")
        schemas(rendering)
        references(rendering)
        for resource in rendering.resources:
            pod = pod_of(resource)
            if not pod:
                continue
            for container in containers(pod):
                found = list(offences(pod, container))
                check(not found, f"{title(rendering, resource)}: {container['name']}: {found}")
            found = [c for c in containers(pod) if c["name"] == "baler"]
            if found:
                probes(title(rendering, resource), found[0])
                configuration(rendering, resource, pod, found[0], baler)
                if len(containers(pod)) > 1:
                    sidecar(rendering, resource, pod, found[0])
        print(f"{rendering.name}: {len(rendering.resources)} resources, {passed - before} checks", flush=True)
    rolls()
    unmodified()
    refused()
    # That this check itself can fail.
    caught = list(offences({"spec": {"hostNetwork": True}}, {"image": "x"}))
    check(len(caught) == 10, f"of the defects of a bare container, only these were seen: {caught}")
    print(f"manifests: {passed} checks passed, {len(failures)} failed")
    sys.exit(1 if failures or passed < 100 else 0)


main()
