"""Programs as they are for the statements of statements.sql, one file for each name there.

``python -m tests.compiler.golden`` writes them anew; look at the difference before you commit it.
"""
