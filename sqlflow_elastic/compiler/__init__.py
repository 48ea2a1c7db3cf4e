"""The compiler: a parsed statement and a database in, a checked plan with its Python program out."""

from sqlflow_elastic.compiler.compile import compile_statement
from sqlflow_elastic.compiler.plan import EvaluatePlan, Features, Plan, PredictPlan, TrainPlan
from sqlflow_elastic.compiler.use import compile_export

__all__ = ["EvaluatePlan", "Features", "Plan", "PredictPlan", "TrainPlan", "compile_export", "compile_statement"]
