"""The networks that programs build have as many weights as the explanation counts, and compute the loss they name."""

from __future__ import annotations

import types
from typing import Any

import numpy as np
import pytest

from sqlflow_elastic.compiler import TrainPlan
from sqlflow_elastic.datasource import DataSource
from tests.compiler.database import compile_text
from tests.compiler.golden.statements import statements

TRAININGS = [name for name, text in statements().items() if "TO TRAIN" in text]


def module_of(program: str) -> Any:
    module = types.ModuleType("program")
    exec(compile(program, "program.py", "exec"), module.__dict__)
    return module


@pytest.mark.parametrize("name", TRAININGS)
def test_program_builds_the_network_that_was_explained(name: str, source: DataSource) -> None:
    import tensorflow as tf

    from sqlflow_elastic.elastic import Batch
    from sqlflow_elastic.models.features import Encoder, FeatureInputs
    from sqlflow_elastic.models.features.statistics import learn

    plan = compile_text(statements()[name], source)
    assert isinstance(plan, TrainPlan)
    module = module_of(plan.program)
    batches = source.probe(plan.select, 1000).combine_chunks().to_batches()
    columns = [column for group in module.COLUMNS.values() for column in group]
    statistics = learn(columns, module.FIELDS, module.LABEL, batches)
    encoder = Encoder(module.COLUMNS, module.FIELDS, statistics, module.LABEL)
    model = module.build_model(FeatureInputs(encoder))

    size = {item: detail for part, item, detail in plan.explanation if part == "size"}
    if size:
        assert size["weights"].split(" weight")[0] == f"{model.count_params():,}"
    owners = [variable for _, variables in module.optimizers(model) for variable in variables]
    assert {id(variable) for variable in owners} == {id(variable) for variable in model.trainable_variables}

    rows = batches[0].slice(0, 6)
    labels = tf.constant(encoder.encode_label(rows))
    features = {name: tf.constant(array) for name, array in encoder.encode(rows).items()}
    losses = module.sample_losses(labels, model(features))
    assert losses.shape == (6,)
    weights = tf.fill([6], 1 / 6)
    loss, gradients = module.gradients(model, Batch(features, labels, weights, tf.constant(1.0)))
    assert np.isfinite(float(loss))
    assert len(gradients) == len(model.trainable_variables)
