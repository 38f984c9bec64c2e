"""What tests of several rooms are made with. What only one room needs stands beside its tests.

`embedded_services`, `drift`, `browser`, `marks` and `emptying` are plugins of pytest (pyproject.toml). `world` is a row
in every table, `addresses` every address that the service has.
"""
