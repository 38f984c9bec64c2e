"""Files of orders: their columns, which rows are one order, and how it is taken in."""
