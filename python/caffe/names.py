"""Names of blobs and layers: dicts and messages that suggest the nearest known name."""
import difflib
from collections import OrderedDict

from ._caffe import _printable

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
    return '' if found is None else '; did you mean %s?' % _printable(found)


def listed(known, most=_MOST):
    """The first names, separated by commas, and the number of others."""
    known = [str(item) for item in known]
    text = ', '.join(known[:most]) or 'none'
    text += ' and %d more' % (len(known) - most) if len(known) > most else ''
    return _printable(text)  # names from files must not change a terminal


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
        return NamedDict, (list(self.items()), self.what)

    def copy(self):
        """A dict of the same items that can be changed."""
        return NamedDict(self.items(), self.what)

    def __or__(self, other):
        if not isinstance(other, dict):
            return NotImplemented
        return NamedDict([*self.items(), *other.items()], self.what)

    def __ror__(self, other):
        if not isinstance(other, dict):
            return NotImplemented
        return NamedDict([*other.items(), *self.items()], self.what)


def _refused(name):
    """A method of dict that changes it, as one that is refused."""
    def method(self, *arguments, **keywords):
        key = arguments[0] if arguments and isinstance(arguments[0], str) else None
        raise TypeError(self.refusal(key))

    method.__name__ = method.__qualname__ = name
    return method


class NetDict(NamedDict):
    """A NamedDict that describes a net and cannot be changed; its copy() can.

    `cure` is the statement that does what an assignment to an item was meant to do, with %r for
    the item's name, or ''.
    """

    def __init__(self, items, what, owner, cure=''):
        OrderedDict.__init__(self)
        for key, value in items:
            OrderedDict.__setitem__(self, key, value)
        self.what, self.owner, self.cure = what, owner, cure

    def refusal(self, key=None):
        """The text of the TypeError for a change of an item."""
        text = '%s describes the net and cannot be changed' % self.owner
        if self.cure:
            text += '; write ' + self.cure % (key or next(iter(self), 'name'))
        return text

    __setitem__, __delitem__, __ior__ = map(_refused, ('__setitem__', '__delitem__', '__ior__'))
    update, setdefault, pop, popitem, clear, move_to_end = map(_refused, (
        'update', 'setdefault', 'pop', 'popitem', 'clear', 'move_to_end'))
