"""Load and faults on the real service, and checks that no promise was broken (docs/reliability.md).

`service` starts it with `doors` between its parts, `load` sends what shops and agents send, `faults` hurts it, and
`checker` judges what was answered, what arrived and which `rows` are left. `run` is one run of all this, and
`python -m tests.chaos` a long one.
"""
