"""``python -m sqlflow_elastic.jobs.master``: a job's master, with the job in environment variables."""

import sys

from sqlflow_elastic.jobs.master.process import main

if __name__ == "__main__":
    sys.exit(main())
