"""The program of `examples/cluster`, and the files with which it is deployed."""

import csv
import os
import re
import subprocess
import sys
import uuid
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

import nighthawk_async as nh
from nighthawk_async.testing import ModelReply, ModelServer, tool_call
from tests.marked_processes import wait_until_ended

CLUSTER = Path(__file__).parents[2] / "examples" / "cluster"
HADOLINT = Path(sys.executable).with_name("hadolint")
PAGE = CLUSTER.parents[1] / "docs" / "ray.md"

CLUSTER_FIELDS = {"rayVersion", "headGroupSpec", "workerGroupSpecs"}
JOB_FIELDS = {
    *("backoffLimit", "entrypoint", "rayClusterSpec", "runtimeEnvYAML", "shutdownAfterJobFinishes"),
    "ttlSecondsAfterFinished",
}
"""The fields of KubeRay that are used here, as its samples spell them."""

INSTRUCTIONS = {"FROM", "RUN", "WORKDIR", "COPY", "ENV"}


def job() -> dict[str, Any]:
    return yaml.safe_load((CLUSTER / "rayjob.yaml").read_text(encoding="utf-8"))


def pods() -> list[dict[str, Any]]:
    cluster = job()["spec"]["rayClusterSpec"]
    groups = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
    return [group["template"]["spec"] for group in groups]


def test_the_manifest_is_a_job_of_kuberay() -> None:
    manifest = job()
    assert (manifest["apiVersion"], manifest["kind"]) == ("ray.io/v1", "RayJob")
    assert set(manifest["spec"]) == JOB_FIELDS
    assert set(manifest["spec"]["rayClusterSpec"]) == CLUSTER_FIELDS
    assert yaml.safe_load(manifest["spec"]["runtimeEnvYAML"]) == {"env_vars": {"WORKERS": "16"}}
    for group in manifest["spec"]["rayClusterSpec"]["workerGroupSpecs"]:
        assert set(group) == {
            *("groupName", "replicas", "minReplicas", "maxReplicas", "rayStartParams", "template"),
        }
        assert group["minReplicas"] <= group["replicas"] <= group["maxReplicas"]
    for pod in pods():
        claimed = {volume["name"] for volume in pod.get("volumes", ())}
        for container in pod["containers"]:
            assert {mount["name"] for mount in container.get("volumeMounts", ())} <= claimed


def test_every_pod_has_the_same_image_and_the_keys() -> None:
    containers = [container for pod in pods() for container in pod["containers"]]
    assert len({container["image"] for container in containers}) == 1
    assert all(each["envFrom"] == [{"secretRef": {"name": "model-keys"}}] for each in containers)
    readme = (CLUSTER / "README.md").read_text(encoding="utf-8")
    assert f"docker build -t {containers[0]['image']} ." in readme


def test_the_cluster_has_room_for_the_workers() -> None:
    (group,) = job()["spec"]["rayClusterSpec"]["workerGroupSpecs"]
    (container,) = group["template"]["spec"]["containers"]
    assert group["replicas"] * int(container["resources"]["limits"]["cpu"]) >= 16 * 0.25


def test_the_image_contains_the_program_and_the_version_of_ray() -> None:
    lines = (CLUSTER / "Dockerfile").read_text(encoding="utf-8").splitlines()
    instructions = [line.split(maxsplit=1) for line in lines if line and not line.startswith("#")]
    assert {name for name, _ in instructions} <= INSTRUCTIONS
    assert instructions[0][0] == "FROM"
    version = job()["spec"]["rayClusterSpec"]["rayVersion"]
    assert re.fullmatch(rf"rayproject/ray:{re.escape(version)}-py3\d+", instructions[0][1])
    folder = dict(instructions)["WORKDIR"]
    copied = dict(instructions)["COPY"].split()[0]
    assert (CLUSTER / copied).exists()
    assert job()["spec"]["entrypoint"].startswith(f"python {folder}/{copied} ")
    assert {container["workingDir"] for pod in pods() for container in pod["containers"]} == {folder}


def test_the_image_has_this_version_of_the_library() -> None:
    content = (CLUSTER / "Dockerfile").read_text(encoding="utf-8")
    assert re.findall(r"nighthawk-async\[ray\]==([\w.]+)'", content) == [nh.__version__]


@pytest.mark.skipif(not HADOLINT.exists(), reason="the nox session `ray` has hadolint")
def test_hadolint_finds_nothing_in_the_image() -> None:
    found = subprocess.run(
        [HADOLINT, "--no-color", CLUSTER / "Dockerfile"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (found.returncode, found.stdout) == (0, "")


@pytest.mark.parametrize("pod", pods(), ids=["head", "workers"])
def test_the_pods_have_the_schema_of_kubernetes(pod: dict[str, Any]) -> None:
    kubernetes = pytest.importorskip("kubernetes_validate", reason="the nox session `ray` has it")
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, "spec": pod}
    version = kubernetes.latest_version()
    kubernetes.validate(manifest, version, strict=True)
    with pytest.raises(kubernetes.ValidationError):
        kubernetes.validate({**manifest, "spec": {**pod, "containres": []}}, version, strict=True)


def test_the_program_may_write_to_the_volume() -> None:
    (head,) = (pod for pod in pods() if pod.get("volumes"))
    assert head["securityContext"] == {"fsGroup": 100}


def test_the_page_shows_the_program() -> None:
    program = (CLUSTER / "classify.py").read_text(encoding="utf-8")
    program = program.replace("import anyio\n\n", "import anyio\n")  # the library is not the reader's own
    assert f"```python\n{program}```" in PAGE.read_text(encoding="utf-8")


@pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed; the nox session `ray` has it")
def test_the_program_labels_rows_on_workers_of_ray(tmp_path: Path) -> None:
    source, target = tmp_path / "reviews.csv", tmp_path / "labels.csv"
    texts = [f"review {number} is {'good' if number % 2 else 'bad'}" for number in range(200)]
    with source.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["number", "text"])
        writer.writerows(enumerate(texts))

    def reply(request: nh.testing.RecordedRequest) -> ModelReply:
        label = "praise" if b"is good" in request.content else "complaint"
        assign = tool_call("nh_assign", target_path="label", expression=repr(label))
        return ModelReply(tool_calls=(assign, tool_call("nh_outcome", kind="pass")))

    mark = f"NIGHTHAWK_TEST_{uuid.uuid4().hex}"
    with ModelServer.in_thread(reply) as server:
        done = subprocess.run(
            [sys.executable, str(CLUSTER / "classify.py"), str(source), str(target)],
            env={
                **os.environ,
                **{"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": server.base_url, "WORKERS": "2"},
                **{mark: "1", "RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"},
            },
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert wait_until_ended(mark) == {}
    with target.open(newline="", encoding="utf-8") as file:
        labels = {int(row["number"]): row["label"] for row in csv.DictReader(file)}
    assert labels == {number: ("complaint", "praise")[number % 2] for number in range(200)}
