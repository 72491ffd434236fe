"""The paper's experiments through the public interface: every table and figure, and what a better method gives.

`controlshap reproduce` runs them. Data come from a folder, from a download, or are generated (`data`, `download`);
models are fitted or read (`models`); a cell is a data set, a model, an estimator and a kind of features (`cells`), run
by several methods (`runs`) and held against values that are exact or from long runs (`truth`); `statistics` are the
paper's; `driver` runs what is missing in parallel; `tables` and `figures` show it.
"""
