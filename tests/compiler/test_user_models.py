"""Models that users bring are found and read, and never imported."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint

import pytest

from sqlflow_elastic.compiler import user_models
from sqlflow_elastic.compiler.user_models import NotAModelError, find_user_model
from sqlflow_elastic.datasource import DataSource
from sqlflow_elastic.errors import CompileError
from tests.compiler.database import predict_plan, train_plan

NETS = "tests.compiler.user_nets"


def test_function_declares_its_parameters() -> None:
    model = find_user_model(f"{NETS}.residual")
    assert model is not None
    declared = {a.name: (a.kind.text, a.default, a.required) for a in model.attributes}
    assert declared["model.units"] == ("an integer", None, True)
    assert declared["model.n_classes"] == ("an integer", 2, False)
    assert declared["model.scale"] == ("a number", 0.5, False)
    assert {"model.optimizer", "model.loss", "model.label_vocabulary"} <= declared.keys()
    assert (model.help, model.is_class, model.parameters) == (
        "A layer added to itself.",
        False,
        ("units", "n_classes", "scale"),
    )


def test_class_declares_the_parameters_of_its_constructor() -> None:
    model = find_user_model(f"{NETS}.Net")
    assert model is not None
    assert (model.is_class, model.takes_columns, model.parameters) == (True, True, ("layers",))
    assert {a.name: a.kind.text for a in model.attributes}["model.layers"] == "a list of integers, or None"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no_model", f"the function 'no_model' of '{NETS}' is not annotated to return keras.Model"),
        ("no_inputs", f"the function 'no_inputs' of '{NETS}' takes no inputs"),
        ("Plain", f"the class 'Plain' of '{NETS}' is not derived from keras.Model"),
        ("CONSTANT", f"the module '{NETS}' defines no function or class 'CONSTANT'"),
        ("missing", f"the module '{NETS}' defines no function or class 'missing'"),
    ],
)
def test_something_else_is_no_model(name: str, message: str) -> None:
    with pytest.raises(NotAModelError) as caught:
        find_user_model(f"{NETS}.{name}")
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "name", ["os.system", "sys.exit", "nothing.at.all", "residual", "a b.c", "tests.compiler.class.x", ".x", ""]
)
def test_a_path_to_no_python_source_is_nothing(name: str) -> None:
    assert find_user_model(name) is None


def test_registered_name_leads_to_the_model(monkeypatch: pytest.MonkeyPatch, source: DataSource) -> None:
    point = EntryPoint("residual_net", f"{NETS}:residual", user_models.ENTRY_POINTS)
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [point] if group == point.group else [])
    plan = train_plan(
        "SELECT age, sex FROM passengers TO TRAIN residual_net WITH model.units = 3 LABEL sex INTO m", source
    )
    assert plan.estimator == "residual_net"
    assert f"from {NETS} import residual" in plan.program
    with pytest.raises(CompileError) as caught:
        train_plan("SELECT age, sex FROM passengers TO TRAIN residual_nett LABEL sex INTO m", source)
    assert caught.value.hint == "did you mean 'residual_net'?"


@pytest.mark.parametrize(
    ("attributes", "label", "kind"),
    [
        ("model.units = 3", "sex", "ClassLabel"),
        ("model.units = 3", "fare", "NumberLabel"),
        ("model.units = 3", "survived", "ClassLabel"),
        ("model.units = 3, model.loss = mae", "survived", "NumberLabel"),
        ("model.units = 3, model.n_classes = 2", "survived", "ClassLabel"),
    ],
)
def test_loss_or_label_says_what_is_learned(attributes: str, label: str, kind: str, source: DataSource) -> None:
    train = f"TO TRAIN {NETS}.residual WITH {attributes} LABEL {label} INTO m"
    text = f"SELECT age, sex, fare, survived FROM passengers {train}"
    assert type(train_plan(text, source).features.label).__name__ == kind


def test_wrong_arguments_are_told(source: DataSource) -> None:
    for attributes, message in {
        "model.unit = 3": f"{NETS}.residual has no attribute 'model.unit'",
        'model.units = "a"': "model.units must be an integer, not 'a'",
        "model.scale = 0.1": f"{NETS}.residual needs model.units",
    }.items():
        with pytest.raises(CompileError) as caught:
            train_plan(
                f"SELECT age, sex FROM passengers TO TRAIN {NETS}.residual WITH {attributes} LABEL sex INTO m", source
            )
        assert caught.value.message == message


def test_looking_a_model_up_imports_nothing() -> None:
    code = (
        "import sys; from sqlflow_elastic.compiler.user_models import find_user_model; before = set(sys.modules); "
        f"assert find_user_model('{NETS}.residual'); print(sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert "user_nets" not in done.stdout
    assert "keras" not in done.stdout


def test_predicting_with_a_model_whose_code_is_gone_is_told(
    monkeypatch: pytest.MonkeyPatch, source: DataSource
) -> None:
    monkeypatch.setattr("sqlflow_elastic.compiler.use.find_user_model", lambda name: None)
    text = "SELECT * FROM passengers TO PREDICT guesses.sex USING net_of_mine"
    with pytest.raises(CompileError) as caught:
        predict_plan(text, source)
    assert caught.value.message == f"'net_of_mine' is a '{NETS}.Net', and there is no such model any more"
    assert text[caught.value.span.start :] == "net_of_mine"
