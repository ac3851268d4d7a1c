"""Names of blobs and layers: dicts and messages that suggest the nearest known name."""
import difflib
from collections import OrderedDict

_MOST = 12


def nearest(name, known):
    """The known name that is most similar to this one, or None if none is similar."""
    known = [str(item) for item in known]
    folded = {item.lower(): item for item in reversed(known)}
    found = difflib.get_close_matches(str(name).lower(), list(folded), n=1, cutoff=0.6)
    return folded[found[0]] if found else None


def did_you_mean(name, known):
    """'; did you mean conv1?', or '' if no known name is similar."""
    found = nearest(name, known)
    return '' if found is None else '; did you mean %s?' % found


def listed(known, most=_MOST):
    """The first names, separated by commas, and the number of others."""
    known = [str(item) for item in known]
    text = ', '.join(known[:most]) or 'none'
    return text + (' and %d more' % (len(known) - most) if len(known) > most else '')


class UnknownName(KeyError):
    """A KeyError whose text is a sentence. args[0] is the key."""

    def __init__(self, key, message):
        super().__init__(key)
        self.message = message

    def __str__(self):
        return self.message

    def __reduce__(self):
        return type(self), (self.args[0], self.message)


class NamedDict(OrderedDict):
    """An OrderedDict whose d[key] suggests the nearest key if the key is unknown.

    get and in are those of dict.
    """

    def __init__(self, items, what):
        super().__init__(items)
        self.what = what

    def __missing__(self, key):
        raise UnknownName(key, 'there is no %s %r%s There are %s' % (
            self.what, key, did_you_mean(key, self) or '.', listed(self)))

    def __reduce__(self):
        return type(self), (list(self.items()), self.what)

    def copy(self):
        return type(self)(self.items(), self.what)
