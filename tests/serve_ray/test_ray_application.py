"""What Ray is told to run, and the manifest of examples/ray/."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from specguide.config import EngineConfig
from specguide.errors import InvalidParams
from specguide.serve_ray.arguments import plans_of
from specguide.serve_ray.config import ReplicaConfig
from specguide.server.config import API_KEYS_VARIABLE

EXAMPLES = Path(__file__).parents[2] / "examples/ray"


def test_arguments():
    plan, replicas = plans_of({"replicas": 3, "spec": {"num_draft_tokens": 2}})
    assert replicas == ReplicaConfig(replicas=3)
    assert plan.engine.max_batch_size == 64 and plan.engine.spec.num_draft_tokens == 2
    assert plan.engine.guide.isolate_compiles and plan.server.model_name == "specguide-small"
    assert plans_of({"replicas": "3", "spec": '{"num_draft_tokens": 2}'}) == (plan, replicas)
    plan, _ = plans_of({"engine": {"model": "/models/some"}, "guide": None})
    assert plan.engine.spec is None and plan.engine.guide is None
    assert plan.server.model_name == "some"
    plan, _ = plans_of({"server": {"api_keys": ["a"]}, "exposure": {"allowed_origins": ["*"]}})
    assert plan.server.api_keys == ("a",) and plan.server.exposure.allowed_origins == ("*",)


def test_guides_are_compiled_apart_whatever_else_is_said_of_them():
    guide = plans_of({"guide": {"max_depth": 7}})[0].engine.guide
    assert guide.isolate_compiles and guide.max_depth == 7
    assert not plans_of({"guide": {"isolate_compiles": False}})[0].engine.guide.isolate_compiles


def test_keys_of_the_environment(monkeypatch):
    monkeypatch.setenv(API_KEYS_VARIABLE, "one two")
    assert plans_of({})[0].server.api_keys == ("one", "two")
    assert plans_of({"server": {"api_keys": ["three"]}})[0].server.api_keys == ("three",)


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ({"replica": 2}, "replica is unknown; known: replicas.*, engine, spec, .*exposure$"),
        ({"engine": {"x": 1}}, "engine.x is unknown; known: model, max_batch_size"),
        ({"engine": {"max_batchsize": 2}}, "engine.max_batchsize is unknown"),
        ({"model": "/models/some"}, "model is unknown; known: replicas"),
        ({"replicas": "two"}, "replicas must be an integer, found 'two'"),
        ({"engine": "x"}, "engine must be a mapping, found 'x'"),
        ({"engine": [1]}, "engine must be a mapping"),
        ({"engine": {"spec": {"num_draft_tokens": 2}}}, "engine.spec is a section of its own"),
        ({"server": {"exposure": None}}, "exposure is a section of its own: write exposure next"),
        ({"transfer": {"role": "decoder"}}, "role 'decoder' is unknown"),
        ({"replicas": 0}, "replicas must be ≥ 1"),
        ({"replicas": 3, "max_replicas": 2}, "max_replicas must be at least replicas = 3"),
        ({"replica_gpus": -1}, "replica_gpus must be ≥ 0"),
        ({"replica_requests": 0}, "replica_requests must be ≥ 1"),
        ({"replicas": 1.5}, "replicas must be an integer, found 1.5"),
        ({"server": {"api_keys": "secret"}}, "api_keys must be texts in a list, found 'secret'"),
        ({"server": {"max_waiting": "8"}}, "max_waiting must be an integer, found '8'"),
        ({"server": {"port": 80}}, "server.port would do nothing.*port in the http_options"),
        ({"exposure": {"ssl_certfile": "x"}}, "exposure.ssl_certfile would do nothing"),
        ({"exposure": {"protect_metrics": "no"}}, "protect_metrics must be True or False"),
    ],
)
def test_wrong_arguments_are_named(args, told):
    with pytest.raises(InvalidParams, match=told):
        plans_of(args)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Ray's own schema
def test_the_manifest():
    pytest.importorskip("ray", reason="needs Ray Serve: pip install ray[serve]")
    from ray.serve.schema import ServeDeploySchema

    from specguide.serve_ray.application import num_gpus, resources

    service = yaml.safe_load((EXAMPLES / "rayservice.yaml").read_text())
    assert service["kind"] == "RayService"
    config = ServeDeploySchema(**yaml.safe_load(service["spec"]["serveConfigV2"]))
    (application,) = config.applications
    assert application.import_path == "specguide.serve_ray:app"
    plan, replicas = plans_of(application.args)
    assert num_gpus(plan.engine, replicas) == plan.engine.tensor_parallel_size
    cluster = service["spec"]["rayClusterConfig"]
    assert (EXAMPLES / "Dockerfile").read_text().count(f"ray:{cluster['rayVersion']}-") == 2
    (bundle,) = resources(plan.engine, replicas)["placement_group_bundles"]
    (workers,) = cluster["workerGroupSpecs"]
    (worker,) = workers["template"]["spec"]["containers"]
    assert workers["maxReplicas"] >= replicas.max_replicas
    assert float(worker["resources"]["limits"]["nvidia.com/gpu"]) >= bundle["GPU"]
    assert float(worker["resources"]["requests"]["cpu"]) >= bundle["CPU"]
    assert any(each["name"] == API_KEYS_VARIABLE for each in worker["env"])


def test_ranks_are_placed_together(monkeypatch):
    pytest.importorskip("ray.serve", reason="needs Ray Serve: pip install ray[serve]")
    from specguide.serve_ray.application import num_gpus, resources

    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert num_gpus(EngineConfig(), ReplicaConfig()) == 0
    options = resources(EngineConfig(tensor_parallel_size=4, device="cuda"), ReplicaConfig())
    assert options["placement_group_bundles"] == [{"CPU": 1.0, "GPU": 4.0}]
    assert options["placement_group_strategy"] == "STRICT_PACK"
    far = EngineConfig(tensor_parallel_size=4, rank_address="10.0.0.1:29500")
    with pytest.raises(InvalidParams, match="on one machine"):
        resources(far, ReplicaConfig())
    on_cpu = resources(EngineConfig(device="cpu"), ReplicaConfig(replica_cpus=0))
    assert "placement_group_bundles" not in on_cpu


def test_clients_of_a_replica_that_is_stopped_are_told_before_their_ingress_ends():
    pytest.importorskip("ray.serve", reason="needs Ray Serve: pip install ray[serve]")
    from specguide.serve_ray.application import application

    ingress = application(*plans_of({"server": {"drain_s": 7.0}}))._bound_deployment
    replicas = ingress.init_args[0]._bound_deployment
    given_s, told_s = (
        each._deployment_config.graceful_shutdown_timeout_s for each in (replicas, ingress)
    )
    assert 7 < given_s < told_s


def test_replicas_have_prompts_computed_by_another_engine_and_none_compute_for_others():
    pytest.importorskip("ray.serve", reason="needs Ray Serve: pip install ray[serve]")
    from specguide.serve_ray.application import application

    plan, two = plans_of({"transfer": {"role": "decode"}, "replicas": 2})
    assert plan.engine.transfer.role == "decode"
    application(plan, two)
    with pytest.raises(InvalidParams, match="all would listen at the same kv_transfer_address"):
        application(*plans_of({"transfer": {"role": "prefill"}, "max_replicas": 2}))


@pytest.mark.parametrize(
    ("server", "replica_requests", "taken"),
    [({}, None, 8), ({"max_wait_s": 2.0}, None, 34), ({"max_wait_s": 2.0}, 5, 5)],
)
def test_requests_whose_wait_is_bounded_wait_where_it_is_estimated(server, replica_requests, taken):
    pytest.importorskip("ray.serve", reason="needs Ray Serve: pip install ray[serve]")
    from specguide.serve_ray.application import application

    args = {"engine": {"max_batch_size": 4}, "server": {"max_waiting": 30, **server}}
    ingress = application(*plans_of({**args, "replica_requests": replica_requests}))
    replicas = ingress._bound_deployment.init_args[0]._bound_deployment
    assert replicas._deployment_config.max_ongoing_requests == taken
