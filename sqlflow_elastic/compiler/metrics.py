"""Which metrics a statement measures."""

from __future__ import annotations

from sqlflow_elastic.compiler.attributes import Attributes
from sqlflow_elastic.compiler.program_text import did_you_mean
from sqlflow_elastic.elastic.metrics import METRICS, Task, find, names_for
from sqlflow_elastic.models.zoo.losses import Output

_TASKS = {Output.BINARY: Task.BINARY, Output.CLASSES: Task.MULTICLASS, Output.NUMBER: Task.REGRESSION}
_DEFAULTS = {
    Output.BINARY: ("accuracy", "auc"),
    Output.CLASSES: ("accuracy",),
    Output.NUMBER: ("rmse", "mae"),
}


def chosen_metrics(attributes: Attributes, output: Output) -> tuple[str, ...]:
    """The metrics of ``validation.metrics`` by their own names, or the usual ones. Raises: CompileError: none such."""
    name = "validation.metrics"
    fitting = names_for(_TASKS[output])
    chosen = []
    for given in attributes.values.get(name, _DEFAULTS[output]):
        metric = find(given)
        if metric is None:
            hint = did_you_mean(given, METRICS) or f"there are {', '.join(fitting)}"
            raise attributes.error(name, f"there is no metric '{given}'", hint)
        if metric.name not in fitting:
            message = f"the metric {metric.name} does not fit a label of {output.value}"
            raise attributes.error(name, message, f"these do: {', '.join(fitting)}")
        chosen.append(metric.name)
    return tuple(dict.fromkeys(chosen))
