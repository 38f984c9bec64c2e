"""Load and faults on the real service, and what they may not have done (docs/reliability.md).

`service` starts it, `doors` lie on its ways, `load` sends what shops and agents send, `faults` hurts it, `checker`
judges what was answered, what arrived and what rows are left. `run` is one run of all this; `python -m tests.chaos` a
long one.
"""
