"""A statement's job: its folder, its process, its events, its end."""

from sqlflow_elastic.jobs.folders import job_folder
from sqlflow_elastic.jobs.job import Job

__all__ = ["Job", "job_folder"]
