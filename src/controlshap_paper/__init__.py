"""The paper's experiments through the public interface: every table and figure, and what the library's defaults give.

`controlshap reproduce` runs them (`command`). Data are read from a folder, downloaded or generated (`data`,
`download`); models are fitted or read (`models`); a cell is a data set, a model, an estimator and a kind of features
(`cells`), run by several methods and compared with values that are exact or from long runs (`runs`); `driver` runs
what is missing in parallel; `statistics` are the paper's; `tables` and `figures` show them beside what was `published`.
"""
