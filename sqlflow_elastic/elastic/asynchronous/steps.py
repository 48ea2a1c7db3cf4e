"""One step of a worker that waits for nobody: weights in, gradients out."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from sqlflow_elastic.elastic.asynchronous.dense_tables import DenseTables
from sqlflow_elastic.elastic.batch import Batch, Gradients
from sqlflow_elastic.elastic.dataset import ArrayDataset
from sqlflow_elastic.elastic.feed import Feed
from sqlflow_elastic.elastic.sampling import Rows
from sqlflow_elastic.elastic.served import IDS, Lookup, ServedTables
from sqlflow_elastic.elastic.slice_gradients import slice_gradients
from sqlflow_elastic.elastic.tables.access import Ids, Numbers
from sqlflow_elastic.elastic.ways import specs

#: A learning rate, and how many steps its optimizer has taken.
Rate = tuple[float, int]


@dataclass(frozen=True)
class Samples:
    """A batch.

    Attributes:
        rows: of the dataset.
        lookup: what it needs of the model's tables; None where none are on servers.
        ids: of each table, those of dense weights behind them.
    """

    rows: Rows
    lookup: Lookup | None
    ids: list[Ids]


class LoneSteps:
    """See the module's page.

    Args:
        model: built.
        gradients: a batch's loss and gradients.
        dense: its weights that are no rows of its tables.
        served: its tables; None without.
        dataset: where the samples are.
        batch_size: the most samples of a step.
        number: of this worker: random layers draw others at each.
    """

    def __init__(
        self,
        model: keras.Model,
        gradients: Gradients,
        dense: DenseTables,
        served: ServedTables | None,
        dataset: ArrayDataset,
        batch_size: int,
        number: int,
    ) -> None:
        self._model = model
        self._gradients = gradients
        self._dense = dense
        self._served = served
        self._dataset = dataset
        self._feed = Feed(dataset, batch_size)
        self._number = tf.constant(number, tf.int64)
        self._call: Any = None

    def samples(self, rows: Rows) -> Samples:
        """What a batch of rows [b] needs."""
        if self._served is None:
            return Samples(rows, None, self._dense.ids)
        (lookup,) = self._served.lookups(self._dataset.features[IDS][rows][None])
        return Samples(rows, lookup, [*lookup.ids, *self._dense.ids])

    def run(self, samples: Samples, weights: Sequence[Numbers], step: int) -> tuple[float, list[Numbers], list[Rate]]:
        """Take a step.

        Args:
            samples: the batch.
            weights: the rows of each table that it needs.
            step: how many steps all workers have taken so far.

        Returns:
            The batch's mean loss; of each table the gradients of these rows, and the rate they are applied with.
        """
        places = [] if samples.lookup is None else [samples.lookup.places]
        inputs = [tf.convert_to_tensor(array) for array in (*places, *weights)]
        feed = self._feed.rows(samples.rows, 1 / len(samples.rows))
        if self._call is None:
            self._call = self._traced()
        loss, gradients, rates, iterations = self._call(*feed, tf.constant(step, tf.int64), *inputs)
        rate = list(zip(rates.numpy().tolist(), iterations.numpy().tolist(), strict=True))
        return float(loss), [each.numpy() for each in gradients], rate

    def _traced(self) -> Any:
        served = () if self._served is None else self._served.input_specs
        dense = [tf.TensorSpec((spec.rows, spec.width), tf.as_dtype(spec.dtype)) for spec in self._dense.specs]
        step = tf.TensorSpec((), tf.int64)
        call = tf.function(self._step, autograph=False)
        return call.get_concrete_function(*specs(self._dataset, (None,)), step, *served, *dense)

    def _step(
        self, features: Any, labels: Any, weights: tf.Tensor, step: tf.Tensor, *inputs: tf.Tensor
    ) -> tuple[tf.Tensor, list[tf.Tensor], tf.Tensor, tf.Tensor]:
        dense = len(inputs) - len(self._dense.specs)
        self._dense.set_step(step)
        self._dense.assign(inputs[dense:])
        batch = Batch(features, labels, weights, tf.constant(1.0, keras.config.floatx()))
        said = slice_gradients(
            self._model, self._gradients, batch, self._number, threading.Lock(), self._served, inputs[:dense]
        )
        of = {id(v): each for v, each in zip(self._model.trainable_variables, said.gradients, strict=True)}
        gradients = [*said.rows, *self._dense.gradients(of, said.moved)]
        rates, iterations = self._dense.rates(step)
        if self._served is not None:
            of_served, _ = self._served.rates()
            rates = [*tf.unstack(of_served), *rates]
            iterations = [*[step] * len(self._served.specs), *iterations]
        for seed, following in said.seeds:
            seed.assign(following)
        return said.loss, gradients, tf.stack(rates), tf.stack(iterations)
