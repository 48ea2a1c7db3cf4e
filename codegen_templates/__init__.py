"""Jinja2 templates of the programs the compiler writes; see `sqlflow_elastic.compiler.render`."""
