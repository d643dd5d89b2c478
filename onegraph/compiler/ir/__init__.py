"""The lowered graph: values, parts, steps, who makes and consumes each value, and how a pass changes it."""
