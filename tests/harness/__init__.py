"""What the tests of several rooms share. What only one room needs is mostly beside its tests.

`embedded_services`, `drift`, `browser`, `marks`, `emptying` and `midnight` are pytest plugins (pyproject.toml). `world`
makes a row in every table, and `addresses` lists every address of the service.
"""
