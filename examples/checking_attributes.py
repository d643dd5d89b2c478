"""Check dictionaries of attributes against several editions of the specification."""

import onegraph as og

mistaken = {
    "strides": [2, 2],
    "pads_begin": [0, 0],
    "pads_end": [0, 0],
    "dilations": [1, 1],
    "groups": 0,  # out of range
    "data_format": "NHWC",  # not an allowed value
    "filter_fromat": "OIX",  # misspelled
    "filter_shape": [4, 6, 3, 3],
}
print("three mistakes in the attributes of ConvTransposeBackpropFilters:")
violations = og.check_attrs("ConvTransposeBackpropFilters", mistaken, edition="legacy-1")
for violation in violations:
    print(f"  [{violation.rule}] {violation.message}")
print(f"  ({violations[0].page})\n")

attrs = {**mistaken, "groups": 1, "data_format": "NXC", "filter_format": "OIX"}
del attrs["filter_fromat"]
inputs = [("f32", (1, 5, 5, 8)), ("f32", (1, 14, 11, 4))]
print("right by themselves, but not for these inputs:")
for violation in og.check_op("ConvTransposeBackpropFilters", attrs, inputs, edition="legacy-1"):
    print(f"  [{violation.rule}] {violation.message}")

print("\nthe same word in two editions:")
window = {"strides": [1], "pads_begin": [0], "pads_end": [0], "dilations": [1], "weights_format": "XIO"}
for edition in ("oneapi-1.4", "onednn-3.13"):
    for violation in og.check_attrs("ConvTranspose", window, edition=edition):
        print(f"  {edition}: {violation.severity}: {violation.message}")

print("\nthe builder raises all of it at once, before anything reaches the library:")
graph = og.Graph()
try:
    graph.convolution(graph.input("src", og.f32, (1, 8, 8, 3)), graph.input("w", og.bf16, (3, 3, 4, 8)), strides=[0, 1])
except og.SpecError as error:
    print("  " + str(error).replace("\n", "\n  "))
