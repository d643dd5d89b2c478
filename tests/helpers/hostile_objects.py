"""Objects that misbehave when they are printed."""


class Unprintable:
    def __repr__(self):
        raise ZeroDivisionError


class Boundless(str):
    """A string that claims to be short."""

    def __len__(self):
        return 1

    def __getitem__(self, _):
        return self


class Verbose:
    def __repr__(self):
        return Boundless("x" * 10**6)


class Nameless(type):
    """A class whose name cannot be read."""

    @property
    def __name__(cls):
        raise ZeroDivisionError
