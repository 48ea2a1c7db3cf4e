"""The grammar of the clauses after TO; see `sqlflow_elastic.language`."""
