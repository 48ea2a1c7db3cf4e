"""The words that decide what a statement is, before its grammar is known."""

from __future__ import annotations

#: The verbs that make ``TO`` the beginning of our clauses.
VERBS = ("TRAIN", "PREDICT", "EVALUATE", "EXPLAIN", "RUN", "MAXIMIZE", "MINIMIZE")

#: The words that begin a clause, or a part of one.
CLAUSES = ("WITH", "COLUMN", "FOR", "LABEL", "USING", "INTO", "CMD", "CONSTRAINT", "GROUP", "BY")

#: The words of the language, for completion. A test compares them with the grammar's.
KEYWORDS = (
    *("SELECT", "FROM", "WHERE", "LIMIT"),
    *("TO", *VERBS, *CLAUSES),
    *("SHOW", "DESCRIBE", "DESC", "DROP", "KILL", "MODEL", "MODELS", "JOB", "JOBS", "IF", "EXISTS"),
)

#: What a query begins with.
QUERY_HEADS = frozenset({"SELECT", "WITH", "FROM", "VALUES", "TABLE", "PIVOT", "UNPIVOT", "("})

#: Statements that change data: with a ``TO TRAIN`` behind them they are a mistake, not the database's own.
CHANGE_HEADS = frozenset({"INSERT", "UPDATE", "DELETE", "REPLACE", "MERGE", "DESCRIBE", "DESC"})

#: What the CTEs of a WITH are for.
MAIN_VERBS = frozenset({"SELECT", "FROM", "VALUES", "TABLE", "INSERT", "UPDATE", "DELETE", "MERGE"})

#: Statements that answer with rows.
ROW_HEADS = QUERY_HEADS | {"SHOW", "DESCRIBE", "DESC", "EXPLAIN", "PRAGMA", "SUMMARIZE", "FETCH", "CHECK", "ANALYZE"}

#: After these words SQL wants an operand, so that a ``TO`` behind them is a name.
OPERAND_FOLLOWS = frozenset(
    {
        *("SELECT", "DISTINCT", "ALL", "FROM", "JOIN", "AS", "BY", "WHERE", "ON", "AND", "OR", "NOT", "IN"),
        *("LIKE", "ILIKE", "HAVING", "USING", "LIMIT", "OFFSET", "CASE", "WHEN", "THEN", "ELSE", "BETWEEN", "IS"),
        *("UNION", "EXCEPT", "INTERSECT", "VALUES", "INTERVAL", "SIMILAR", "SET", "QUALIFY"),
    }
)

#: These words go on with a query behind a name, so that a ``to train`` before them is a name and its alias.
QUERY_GOES_ON = frozenset(
    {
        *("FROM", "WHERE", "JOIN", "LEFT", "RIGHT", "INNER", "OUTER", "FULL", "CROSS", "NATURAL", "ON", "USING"),
        *("GROUP", "ORDER", "HAVING", "LIMIT", "OFFSET", "UNION", "EXCEPT", "INTERSECT", "WINDOW", "QUALIFY"),
        *("AND", "OR", "NOT", "IN", "IS", "LIKE", "ILIKE", "BETWEEN", "AS", "ASC", "DESC", "FETCH", "TO"),
        *("SIMILAR", "TABLESAMPLE"),
    }
)

#: ``INTERVAL '1-2' YEAR TO MONTH`` is the database's own TO.
INTERVAL_UNITS = frozenset({"YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND"})

#: What ``CREATE`` makes with a body of statements between BEGIN and END.
ROUTINES = frozenset({"TRIGGER", "PROCEDURE", "FUNCTION", "EVENT"})

#: Behind END: not the end of a BEGIN.
ENDS_OTHER_BLOCKS = frozenset({"IF", "CASE", "LOOP", "WHILE", "REPEAT"})

#: What ``CREATE`` makes without one, whatever its name is.
PLAIN_OBJECTS = frozenset({"TABLE", "VIEW", "INDEX", "DATABASE", "SCHEMA", "SEQUENCE", "TYPE", "USER", "MACRO"})
