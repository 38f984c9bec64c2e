"""Test mode: developers play the agent and the courier for the orders of their account's twin (docs/test-mode.md)."""
