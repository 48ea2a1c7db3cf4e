"""Plans: what the session gets besides the program."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from sqlflow_elastic.compiler import Features, TrainPlan
from sqlflow_elastic.datasource import DataSource
from sqlflow_elastic.elastic.membership.spec import Scaling
from sqlflow_elastic.elastic.settings import TrainSettings
from sqlflow_elastic.jobs.request import JobKind, JobRequest
from sqlflow_elastic.models.features import ClassLabel, Dense, NumberLabel
from tests.compiler.database import compile_text, evaluate_plan, predict_plan, train_plan

IRIS = "SELECT * FROM iris.train TO TRAIN"
ALL_ATTRIBUTES = """
    model.hidden_units = [4], model.n_classes = 3, model.dropout = None, model.batch_norm = False,
    model.activation_fn = "tf.nn.relu",
    model.optimizer = RMSprop, optimizer.learning_rate = 0.1, model.loss = "SparseCategoricalCrossentropy",
    train.epoch = 2, train.batch_size = 10, train.verbose = 0, train.max_steps = 100, train.save_checkpoints_steps = 50,
    train.log_every_n_iter = 20, train.num_workers = 2, train.num_ps = 1, train.worker_cpu = 4, train.worker_gpu = 0,
    train.worker_memory = 2048, train.ps_cpu = 1, train.ps_gpu = 0, train.ps_memory = 1024, train.evaluator_cpu = 1,
    train.evaluator_gpu = 0, train.evaluator_memory = 1024, train.num_evaluator = 1, train.num_boost_round = 30,
    train.disk_cache = True, validation.select = "SELECT * FROM iris.train LIMIT 30;",
    validation.metrics = "Accuracy,AUC",
    validation.steps = 1, validation.start_delay_secs = 0, validation.throttle_secs = 0, train.seed = 3,
    train.strategy = "auto", train.sync = True, train.staleness = 0, train.priority = 1, train.checkpoint_secs = 30,
    train.patience = 2, train.class_weight = "balanced", train.scaling = "all"
"""


def test_train_plan(source: DataSource) -> None:
    text = f"{IRIS} sqlflow_models.DNNClassifier WITH {ALL_ATTRIBUTES} LABEL class INTO iris.m"
    plan = train_plan(text, source)
    assert plan.select == "SELECT * FROM iris.train"
    assert plan.validation_select == "SELECT * FROM iris.train LIMIT 30"
    assert (plan.using, plan.into, plan.estimator) == (None, ("iris", "m"), "DNNClassifier")
    assert plan.metrics == ("accuracy", "auc")
    assert TrainSettings(**plan.settings) == TrainSettings(
        epochs=2,
        batch_size=10,
        seed=3,
        max_steps=100,
        validation_steps=1,
        patience=2,
        checkpoint_secs=30,
        checkpoint_steps=50,
        log_every_n_steps=20,
        verbose=0,
        strategy="auto",
        staleness=0,
        servers=1,
        worker_memory=2048,
    )
    assert plan.attributes["train.num_workers"] == 2
    assert plan.request == JobRequest(
        kind=JobKind.TRAIN,
        title="iris.m",
        statement=text,
        workers=2,
        batch_size=10,
        scaling=Scaling.ALL,
        priority=1,
        slots=4,
        worker_memory=2048,
        ps_slots=1,
        ps_memory=1024,
    )
    assert plan.notes == (
        "without effect yet: train.worker_gpu, train.ps_gpu, train.num_evaluator, train.evaluator_cpu, "
        "train.evaluator_gpu, train.evaluator_memory, validation.start_delay_secs, validation.throttle_secs",
        "without effect on this model: train.num_boost_round, train.disk_cache",
        "without effect where workers take each step together: train.staleness",
    )
    assert plan.features.attributes == {
        "model.hidden_units": [4],
        "model.n_classes": 3,
        "model.dropout": None,
        "model.batch_norm": False,
        "model.activation": "relu",
        "model.optimizer": "RMSprop",
        "model.loss": "SparseCategoricalCrossentropy",
        "optimizer.learning_rate": 0.1,
    }


def test_features_travel_as_json(source: DataSource) -> None:
    for text in (f"{IRIS} LinearClassifier LABEL class INTO m", f"{IRIS} LinearRegressor LABEL sepal_width INTO m"):
        features = train_plan(text, source).features
        assert Features.from_json(json.loads(json.dumps(features.to_json()))) == features


def test_predict_and_evaluate_plans(source: DataSource) -> None:
    predict = predict_plan("SELECT * FROM iris.train TO PREDICT iris.predicted.class USING iris.my_model", source)
    assert (predict.using, predict.into, predict.target) == (("iris", "my_model"), ("iris", "predicted"), "class")
    again = predict_plan("SELECT * FROM iris.train TO PREDICT predictions.class USING iris.my_model", source)
    assert again.into == ("predictions",)
    evaluate = evaluate_plan(
        "SELECT *, class AS truth FROM iris.train TO EVALUATE iris.my_model LABEL truth INTO s", source
    )
    assert (evaluate.using, evaluate.into) == (("iris", "my_model"), ("s",))
    assert (evaluate.label, evaluate.metrics) == ("truth", ("accuracy",))
    assert (predict.request.kind, predict.request.title) == (JobKind.PREDICT, "iris.predicted")
    assert (evaluate.request.kind, evaluate.request.title) == (JobKind.EVALUATE, "iris.my_model")
    assert predict.request.statement.endswith("TO PREDICT iris.predicted.class USING iris.my_model")


def test_a_training_asks_for_one_worker_unless_it_says_more(source: DataSource) -> None:
    request = train_plan(f"{IRIS} LinearClassifier LABEL class INTO m", source).request
    assert (request.workers, request.scaling, request.priority, request.slots) == (1, Scaling.FASTEST, 0, 1)


@pytest.mark.parametrize("cores", ["1.5", "2"])
def test_cores_of_a_worker_are_slots_rounded_up(cores: str, source: DataSource) -> None:
    text = f"{IRIS} LinearClassifier WITH train.worker_cpu = {cores} LABEL class INTO m"
    assert train_plan(text, source).request.slots == 2


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM iris.train TO PREDICT p.class WITH predict.num_workers = 3 USING iris.my_model",
        "SELECT * FROM iris.train TO EVALUATE iris.my_model WITH predict.num_workers = 3 LABEL class",
    ],
)
def test_predicting_and_evaluating_take_all_the_workers_they_are_given(text: str, source: DataSource) -> None:
    request = compile_text(text, source).request
    assert (request.workers, request.scaling, request.batch_size) == (3, Scaling.ALL, None)


def test_gradients_travel_as_they_are_unless_something_else_is_said(source: DataSource) -> None:
    assert "wire_dtype" not in train_plan(f"{IRIS} LinearClassifier LABEL class INTO m", source).settings
    text = f"{IRIS} LinearClassifier WITH train.wire_dtype = bfloat16 LABEL class INTO m"
    assert train_plan(text, source).settings["wire_dtype"] == "bfloat16"
    assert 'wire_dtype="bfloat16"' in train_plan(text, source).program


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("train.sync = True", {}),
        ("train.strategy = auto, train.sync = True", {"strategy": "auto"}),
        ("train.strategy = hybrid, train.num_ps = 2", {"strategy": "hybrid", "servers": 2}),
        ("train.strategy = ps, train.sync = True", {"strategy": "hybrid"}),
        ("train.strategy = ps, train.num_ps = 2", {"strategy": "ps", "servers": 2}),
        ("train.sync = False", {"strategy": "ps"}),
        ("train.strategy = auto, train.sync = False", {"strategy": "ps"}),
        ("train.strategy = allreduce, train.sync = True", {"strategy": "allreduce"}),
        ("train.num_ps = 0", {"strategy": "allreduce"}),
        ("train.num_ps = 3, train.worker_memory = 512", {"servers": 3, "worker_memory": 512}),
    ],
)
def test_a_strategy_is_settled_once(given: str, expected: dict[str, Any], source: DataSource) -> None:
    plan = train_plan(f"{IRIS} LinearClassifier WITH {given} LABEL class INTO m", source)
    names = {"strategy", "servers", "worker_memory"}
    assert {name: value for name, value in plan.settings.items() if name in names} == expected
    assert TrainSettings(**plan.settings)
    assert not plan.notes


def test_what_is_asked_of_servers_that_are_not_there_is_told(source: DataSource) -> None:
    given = "train.strategy = allreduce, train.num_ps = 2, train.ps_memory = 512"
    plan = train_plan(f"{IRIS} LinearClassifier WITH {given} LABEL class INTO m", source)
    assert plan.notes == ("without effect without servers: train.num_ps, train.ps_memory",)


def test_what_has_no_effect_on_workers_that_take_their_own_steps_is_told(source: DataSource) -> None:
    given = 'train.sync = False, train.num_workers = 100, train.batch_size = 10, train.scaling = "fastest"'
    plan = train_plan(f"{IRIS} LinearClassifier WITH {given}, train.log_every_n_iter = 5 LABEL class INTO m", source)
    assert plan.notes == (
        "without effect where each worker takes steps of its own: train.scaling, train.log_every_n_iter",
    )
    assert (plan.settings["strategy"], plan.request.workers, plan.request.batch_size) == ("ps", 100, None)


def test_a_request_travels_as_json(source: DataSource) -> None:
    text = f"{IRIS} LinearClassifier WITH train.num_workers = 2, train.scaling = all LABEL class INTO m"
    request = train_plan(text, source).request
    assert JobRequest.from_json(json.loads(json.dumps(request.to_json()))) == request


def test_a_trained_model_may_be_trained_again_and_replaced(source: DataSource) -> None:
    plan = train_plan(
        f"{IRIS} DNNClassifier WITH model.hidden_units = [10, 20], optimizer.learning_rate = 0.5 "
        "COLUMN * LABEL class USING iris.my_model INTO iris.my_model",
        source,
    )
    assert plan.using == plan.into == ("iris", "my_model")
    assert "learning_rate=0.5" in plan.program
    assert "for units in [10, 20]:" in plan.program
    assert plan.features.columns["feature_columns"][0] == Dense("sepal_length")


@pytest.mark.parametrize(
    "columns", ["*", "sepal_length, *", "DENSE(petal_width, 1), sepal_length, petal_length, sepal_width"]
)
def test_columns_of_a_trained_model_may_be_said_again(columns: str, source: DataSource) -> None:
    plan = train_plan(f"{IRIS} DNNClassifier COLUMN {columns} LABEL class USING iris.my_model INTO m", source)
    assert (
        plan.features.columns == train_plan(f"{IRIS} DNNClassifier USING iris.my_model INTO m", source).features.columns
    )


def test_a_trained_model_is_never_derived_again(source: DataSource) -> None:
    text = "SELECT CAST(sepal_length AS TEXT) || ' cm' AS sepal_length, sepal_width, petal_length, petal_width, class "
    plan = train_plan(f"{text} FROM iris.train TO TRAIN DNNClassifier COLUMN * USING iris.my_model INTO m", source)
    assert plan.features.columns["feature_columns"][0] == Dense("sepal_length")


@pytest.mark.parametrize(
    ("table", "clauses", "label"),
    [
        ("iris.train", "LABEL class", ClassLabel("class", [0, 1, 2])),
        ("iris.train", "WITH model.n_classes = 4 LABEL class", ClassLabel("class", [0, 1, 2, 3])),
        ("iris.train", "LABEL petal_width", ClassLabel("petal_width", [0, 1, 2])),
        ("iris.train", "LABEL CLASS", ClassLabel("class", [0, 1, 2])),
        ("(SELECT class + 5 AS class, sepal_width FROM iris.train)", "LABEL class", ClassLabel("class", [5, 6, 7])),
        ("passengers", "LABEL sex", ClassLabel("sex", ["female", "male"])),
        (
            "passengers",
            'WITH model.label_vocabulary = ["male", "female", "x"] LABEL sex',
            ClassLabel("sex", ["male", "female", "x"]),
        ),
        ("passengers", "LABEL alone", ClassLabel("alone", [False, True])),
        ("big", "LABEL sorted", ClassLabel("sorted", [0, 1, 2])),
        ("big", "WITH model.n_classes = 50 LABEL sorted", ClassLabel("sorted", list(range(50)))),
    ],
)
def test_classes_of_a_label(table: str, clauses: str, label: ClassLabel, source: DataSource) -> None:
    plan = train_plan(f"SELECT * FROM {table} TO TRAIN LinearClassifier {clauses} INTO m", source)
    assert plan.features.label == label


def test_many_classes_stand_in_the_program_as_a_range(source: DataSource) -> None:
    plan = train_plan(
        "SELECT * FROM big TO TRAIN LinearClassifier WITH model.n_classes = 500 LABEL class INTO m", source
    )
    assert 'LABEL = ClassLabel("class", classes=list(range(500)))' in plan.program


def test_numbers_as_text_are_a_label_of_numbers(source: DataSource) -> None:
    plan = train_plan("SELECT * FROM lists TO TRAIN LinearRegressor LABEL written INTO m", source)
    assert plan.features.label == NumberLabel("written")
    assert plan.features.scale == (34.64, 60.0)


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ('"balanced"', 'class_weight="balanced"'),
        ("[1, 2.5]", 'class_weight={"female": 1, "male": 2.5}'),
        ('[["male", 3]]', 'class_weight={"female": 1.0, "male": 3}'),
    ],
)
def test_class_weights(weights: str, expected: str, source: DataSource) -> None:
    plan = train_plan(
        f"SELECT * FROM passengers TO TRAIN LinearClassifier WITH train.class_weight = {weights} LABEL sex INTO m",
        source,
    )
    assert f"        {expected},\n" in plan.program


@pytest.mark.parametrize(
    ("rows", "batch_size", "epochs"),
    [(4, 4, 100), (110, 4, 18), (900, 32, 18), (5000, 64, 10)],
)
def test_few_rows_get_more_epochs_of_smaller_batches(
    rows: int, batch_size: int, epochs: int, source: DataSource
) -> None:
    text = f"SELECT * FROM (SELECT * FROM big LIMIT {rows}) TO TRAIN LinearClassifier LABEL class INTO m"
    settings = train_plan(text, source).settings
    assert (settings["batch_size"], settings["epochs"]) == (batch_size, epochs)


def test_notes_tell_what_was_left_out(source: DataSource) -> None:
    plan = train_plan("SELECT a, nothing, bytes, answer FROM odd TO TRAIN LinearClassifier LABEL answer INTO m", source)
    assert plan.notes == (
        "field 'nothing' is left out: it holds only NULL",
        "field 'bytes' is left out: no feature can be made of type binary",
    )


def test_explanation_counts_weights(source: DataSource) -> None:
    plan = train_plan(
        "EXPLAIN SELECT age, sex, ticket, survived FROM passengers TO TRAIN DNNClassifier "
        "WITH model.hidden_units = [4], model.batch_norm = True LABEL survived INTO m",
        source,
    )
    rows = plan.describe()
    assert rows.schema.names == ["part", "item", "detail"]
    found = {(row["part"], row["item"]): row["detail"] for row in rows.to_pylist()}
    assert found["layer", 'Embedding(CategoryHash("ticket", 16384), 16)'] == "16,384 ids x 16: 262,144 weights"
    assert found["layer", "relu layer"] == "21 x 4 + 4: 88 weights"
    assert found["layer", "outputs"] == "4 x 1 + 1: 5 weights"
    assert found["size", "weights"] == "262,253 weights, 1.05 MB"
    assert found["size", "with optimizer"] == "3.15 MB"
    assert found["data", "epochs"] == "27, each of 19 steps in batches of 16"
    assert strategy_of(plan) == {
        "choice": "allreduce: one worker has room for all of it, and nothing has to be exchanged",
        "allreduce": "0 B and 0.03 ms of a step beside computing; 947 MB for a worker",
        "hybrid": "2.11 kB and 0.41 ms of a step beside computing; 944 MB for a worker",
        "assumed": ASSUMED,
    }


ASSUMED = "1 GB/s between processes, and different ids in a batch; the job measures both before it chooses"


def strategy_of(plan: TrainPlan) -> dict[str, str]:
    return {item: detail for part, item, detail in plan.explanation if part == "strategy"}


TICKETS = "SELECT age, sex, ticket, survived FROM passengers TO TRAIN DNNClassifier WITH model.hidden_units = [4]"


def test_explanation_says_what_workers_do_and_exchange(source: DataSource) -> None:
    cluster = "train.num_workers = 3, train.batch_size = 16, train.worker_cpu = 2"
    plan = train_plan(f"EXPLAIN {TICKETS}, model.batch_norm = True, {cluster} LABEL survived INTO m", source)
    # 88 + 5 weights, 8 of batch normalisation, 8 batch statistics: 109 numbers
    assert strategy_of(plan) == {
        "workers": "at most 3, as train.num_workers says",
        "scaling": "fastest: begins with one, and keeps as many workers as make training fastest",
        "rows": "5 or 6 of each batch of 16 for each of 3 workers",
        "choice": "allreduce: 0.03 ms of a step of 3 workers beside computing, hybrid 0.41",
        # Each sends and receives 581 B of dense gradients, and 768 B of 16 rows of 72 B.
        "allreduce": "2.7 kB and 0.03 ms of a step beside computing; 947 MB for a worker",
        "hybrid": "1.87 kB and 0.41 ms of a step beside computing; 944 MB for a worker",
        "assumed": ASSUMED,
        "slots": "2 for each worker",
    }


def test_explanation_counts_in_the_type_that_travels(source: DataSource) -> None:
    cluster = 'train.num_workers = 2, train.batch_size = 16, train.scaling = "all", train.wire_dtype = "float16"'
    found = strategy_of(train_plan(f"EXPLAIN {TICKETS}, {cluster} LABEL survived INTO m", source))
    assert found["scaling"] == "all: as many as there is room for"
    assert found["rows"] == "8 of each batch of 16 for each of 2 workers"
    # 93 numbers of 2 bytes, and half of 16 rows of 72 B, both ways.
    assert found["allreduce"].startswith("1.52 kB")


@pytest.mark.parametrize(
    ("batch_size", "note"),
    [
        (2, "a batch of 2 rows keeps at most 2 workers busy; 4 were asked for"),
        (1, "a batch of 1 row keeps at most 1 worker busy; 4 were asked for"),
    ],
)
def test_more_workers_than_a_batch_has_rows_are_told(batch_size: int, note: str, source: DataSource) -> None:
    cluster = f"train.num_workers = 4, train.batch_size = {batch_size}"
    plan = train_plan(f"EXPLAIN {TICKETS}, {cluster} LABEL survived INTO m", source)
    assert plan.request.workers == batch_size
    assert note in plan.notes
    assert strategy_of(plan)["workers"] == f"at most {batch_size}: {note}"


def test_what_a_users_model_exchanges_is_known_later(source: DataSource) -> None:
    text = (
        "SELECT age, sex FROM passengers TO TRAIN tests.compiler.user_nets.Net WITH train.num_workers = 2 "
        "LABEL sex INTO m"
    )
    assert strategy_of(train_plan(text, source))["choice"] == (
        "made when the network is built and its weights are known"
    )


def test_the_program_does_not_say_where_the_database_is(source: DataSource) -> None:
    class Elsewhere:
        url = "mysql://me:secret@somewhere/iris"

        def __getattr__(self, name: str) -> Any:
            return getattr(source, name)

    text = f"{IRIS} LinearClassifier LABEL class INTO m"
    program = train_plan(text, Elsewhere()).program  # type: ignore[arg-type]
    assert program == train_plan(text, source).program
    assert "secret" not in program
    assert "somewhere" not in program


def test_compiling_imports_neither_tensorflow_nor_keras() -> None:
    heavy = "[name for name in sys.modules if name.split('.')[0] in ('tensorflow', 'keras')]"
    code = f"import sys, sqlflow_elastic.compiler; print({heavy})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"


def test_explain_counts_what_is_trained_on(source: DataSource) -> None:
    attributes = "validation.fraction = 0.2, train.batch_size = 8, train.epoch = 3, train.max_steps = 5"
    plan = train_plan(
        f"SELECT * FROM iris.train TO TRAIN LinearClassifier WITH {attributes} LABEL class INTO m", source
    )
    found = {(part, item): detail for part, item, detail in plan.explanation}
    assert found["data", "rows"] == "110, 22 of them for validation"
    assert found["data", "epochs"] == "3, each of 11 steps in batches of 8; at most 5 steps in all"


def test_metrics_that_nothing_is_measured_on_are_told(source: DataSource) -> None:
    text = "SELECT * FROM iris.train TO TRAIN LinearClassifier WITH validation.metrics = AUC LABEL class INTO m"
    note = "without effect without validation.fraction or validation.select: validation.metrics"
    assert train_plan(text, source).notes == (note,)
