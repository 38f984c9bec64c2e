"""What tests of several rooms are made with. What only one room needs stands beside its tests."""
