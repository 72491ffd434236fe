"""The result of an explanation: values, errors, rankings, summaries, tables, and their wording."""
