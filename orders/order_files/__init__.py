"""Files of orders: their columns, which rows are one order, and how orders are taken in."""
