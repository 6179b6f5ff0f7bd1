"""Renders everything that deploy/ has for Kubernetes: plain manifests, kustomize overlays, Helm cases."""

import glob
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass

import helm_python.chart as helm
import yaml

DEPLOY = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# A copy, in which the links to rules and dashboards are files: Helm would mention each link each time.
_COPIES = tempfile.TemporaryDirectory()
CHART = shutil.copytree(os.path.join(DEPLOY, "helm", "baler"), os.path.join(_COPIES.name, "baler"))
EXAMPLE = os.path.join(DEPLOY, "helm", "example")


@dataclass
class Rendering:
    """Resources of one source, and the Kubernetes versions that they are for."""

    name: str
    resources: list
    versions: tuple


def documents(text):
    return [resource for resource in yaml.safe_load_all(text) if resource]


def kustomize(folder):
    kubectl = os.path.join(os.path.dirname(os.sys.executable), "kubectl")
    path = os.path.join(DEPLOY, "kustomize", "example", folder)
    return documents(subprocess.run([kubectl, "kustomize", path], check=True, capture_output=True, text=True).stdout)


def chart(path, values=None, name="release"):
    with helm.Chart.load(path) as loaded:
        loaded.validate_schema(values or {})
        texts = loaded.render(values or {}, name=name, namespace="shop")
    return [r for path, text in sorted(texts.items()) if not path.endswith(".txt") for r in documents(text)]


def cases():
    """Name and values of the chart's cases."""
    for path in sorted(glob.glob(os.path.join(CHART, "ci", "*-values.yaml"))):
        with open(path, encoding="utf-8") as file:
            yield os.path.basename(path).removesuffix("-values.yaml"), yaml.safe_load(file) or {}


def example_chart(values=None):
    """The example chart, with Baler's as its dependency."""
    with tempfile.TemporaryDirectory() as folder:
        copy = os.path.join(folder, "assistant")
        shutil.copytree(EXAMPLE, copy)
        shutil.copytree(CHART, os.path.join(copy, "charts", "baler"))
        problems = [m for m in helm.lint(copy, values, strict=True)["messages"] if m["severity"] > 1]
        assert not problems, problems
        return chart(copy, values, name="shop")


def everything(native, before):
    """All renderings. `native` are the versions with sidecars, `before` the oldest that the variant is for."""
    for path in sorted(glob.glob(os.path.join(DEPLOY, "kubernetes", "*.yaml"))):
        with open(path, encoding="utf-8") as file:
            yield Rendering(os.path.relpath(path, DEPLOY), documents(file), native)
    yield Rendering("kustomize/example/native", kustomize("native"), native)
    yield Rendering("kustomize/example/before-1.29", kustomize("before-1.29"), before)
    yield Rendering("helm/example", example_chart(), native)
    for name, values in cases():
        # The hook "sleep" came with 1.30; the case "small" is without it.
        versions = native if name in ("small", "sidecar") else native[1:]
        yield Rendering(f"helm/baler: {name}", chart(CHART, values), versions)
