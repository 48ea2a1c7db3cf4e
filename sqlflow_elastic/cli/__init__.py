"""The command ``sqlflow-elastic``."""


def main() -> None:
    """Run the command with the process's arguments; ends the process with one of the exit codes of `app`."""
    from sqlflow_elastic.cli.app import run_app

    run_app()
