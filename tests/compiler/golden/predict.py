"""Predicts class with the trained model iris.my_model.

    SELECT * FROM iris.train WHERE sepal_length > 1.2 TO PREDICT iris.predicted.class USING iris.my_model

It runs by itself: SQLFLOW_ELASTIC_DATASOURCE=duckdb:///my.duckdb python program.py --model model.artifact
"""

from sqlflow_elastic import elastic
from sqlflow_elastic.datasource import Query

SELECT = "SELECT * FROM iris.train WHERE sepal_length > 1.2"

if __name__ == "__main__":
    elastic.predict(
        name="iris.my_model",
        rows=Query(SELECT),
        target="class",
        batch_size=1024,
    )
