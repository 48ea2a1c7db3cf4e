"""Evaluates the trained model my_regressor.

    SELECT * FROM passengers TO EVALUATE my_regressor WITH validation.metrics = "MSE,MAE" LABEL fare INTO scores

It runs by itself: SQLFLOW_ELASTIC_DATASOURCE=duckdb:///my.duckdb python program.py --model model.artifact
"""

from sqlflow_elastic import elastic
from sqlflow_elastic.datasource import Query

SELECT = "SELECT * FROM passengers"

if __name__ == "__main__":
    elastic.evaluate(
        name="my_regressor",
        rows=Query(SELECT),
        label="fare",
        metrics=["mse", "mae"],
    )
