"""Evaluates the trained model residuals.

    SELECT * FROM passengers TO EVALUATE residuals LABEL sex INTO scores

It runs by itself: SQLFLOW_ELASTIC_DATASOURCE=duckdb:///my.duckdb python program.py --model model.artifact
"""

import tests.compiler.user_nets  # noqa: F401 - it may register layers that the network is made of
from sqlflow_elastic import elastic
from sqlflow_elastic.datasource import Query

SELECT = "SELECT * FROM passengers"

if __name__ == "__main__":
    elastic.evaluate(
        name="residuals",
        rows=Query(SELECT),
        label="sex",
        metrics=["accuracy", "auc"],
    )
