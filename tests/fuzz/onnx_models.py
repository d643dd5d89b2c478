"""Changes ONNX models at random and loads them: ``python -m tests.fuzz.grow onnx SEED COUNT``.

The models are those of the corpus and of the backend tests of the package onnx. A load returns a graph or raises an
error of onegraph.
"""

import traceback
import warnings

import onegraph as og

INTEGERS = (-1, 0, 1, 2, 7, 255, 2**31 - 1, 2**31, 2**40, 2**63 - 1, -(2**63), -(2**40))
WORDS = ("", "x", "y", "../../etc/passwd", "/dev/zero", "\0", "ai.onnx", "Loop", "If", "Scan", "Softmax")


def originals():
    """The serialized models of the backend tests, in a fixed order."""
    from ..onnx_backend.cases import cases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [case.model for _, case in sorted(cases(("node",)).items())]
    return [one.SerializeToString() for one in found]


def changed(population, rng):
    """A changed model."""
    from google.protobuf.message import DecodeError
    from onnx import ModelProto

    data = rng.choice(population)
    if rng.random() < 0.3:
        return changed_bytes(data, rng)
    try:
        model = ModelProto.FromString(data)
    except DecodeError:  # an input that was kept need be no model
        return changed_bytes(data, rng)
    for _ in range(rng.choice((1, 1, 2, 4))):
        change(model, rng)
    try:
        return model.SerializeToString()
    except ValueError:  # a text that is not UTF-8
        return changed_bytes(data, rng)


def changed_bytes(data, rng):
    """Flip bits, cut the end off, or put other bytes in."""
    found = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        way, place = rng.randrange(4), rng.randrange(len(found))
        if way == 0:
            found[place] ^= 1 << rng.randrange(8)
        elif way == 1 and place:
            del found[place:]
        elif way == 2:
            found[place:place] = rng.randbytes(rng.choice((1, 4, 10)))
        else:
            found[place] = rng.choice((0, 1, 127, 128, 255))
    return bytes(found)


def change(message, rng):
    """Change one field of a message, or of one inside it."""
    fields = message.ListFields()
    if not fields or rng.random() < 0.03:
        fields = [(field, None) for field in message.DESCRIPTOR.fields]
    descriptor, _ = rng.choice(fields)
    name = descriptor.name
    if descriptor.message_type is not None:
        _change_message(message, name, _repeated(descriptor), rng)
    elif _repeated(descriptor):
        values = getattr(message, name)
        way = rng.randrange(4)
        if way == 0 and values:
            del values[rng.randrange(len(values))]
        elif way == 1 and values:
            values[rng.randrange(len(values))] = _value(descriptor, rng, values[0])
        elif way == 2 and values:
            values.append(rng.choice(values))
        else:
            values.append(_value(descriptor, rng, None))
    elif rng.random() < 0.1:
        message.ClearField(name)
    else:
        setattr(message, name, _value(descriptor, rng, getattr(message, name)))


def _change_message(message, name, repeated, rng):
    if not repeated:
        if rng.random() < 0.05:
            message.ClearField(name)
        else:
            change(getattr(message, name), rng)
        return
    items, way = getattr(message, name), rng.random()
    if not items:
        items.add()
    place = rng.randrange(len(items))
    if way < 0.1:
        del items[place]
    elif way < 0.2:
        items.add().CopyFrom(items[place])
    elif way < 0.3:
        one, other = type(items[place])(), rng.randrange(len(items))
        one.CopyFrom(items[place])
        items[place].CopyFrom(items[other])
        items[other].CopyFrom(one)
    else:
        change(items[place], rng)


def _value(descriptor, rng, old):
    if descriptor.enum_type is not None:
        return rng.choice([one.number for one in descriptor.enum_type.values])
    kind = descriptor.cpp_type
    if kind == descriptor.CPPTYPE_STRING:
        if descriptor.type == descriptor.TYPE_BYTES:
            return bytes(old or b"")[: rng.randrange(9)] + rng.randbytes(rng.randrange(9))
        return rng.choice((*WORDS, str(old or "")[:-1]))
    if kind in (descriptor.CPPTYPE_FLOAT, descriptor.CPPTYPE_DOUBLE):
        return rng.choice((0.0, -1.0, float("nan"), float("inf"), 1e30))
    if kind in (descriptor.CPPTYPE_INT32, descriptor.CPPTYPE_ENUM):
        return rng.choice([one for one in INTEGERS if -(2**31) <= one < 2**31])
    if kind == descriptor.CPPTYPE_UINT64:
        return rng.choice([one for one in INTEGERS if one >= 0])
    return rng.choice(INTEGERS)


def _repeated(descriptor):
    return descriptor.is_repeated if hasattr(descriptor, "is_repeated") else descriptor.label == 3


def replay(data):
    """The error of a load that no user should see; empty if there is none."""
    import onegraph.onnx

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # numbers overflow when constants are computed
            onegraph.onnx.load(data)
    except og.FormatError:
        return ""
    except Exception:
        return traceback.format_exc()
    return ""
