"""Error messages for calls of compiled functions with wrong arguments.

pybind11 answers such a call with a list of C++ signatures and the arguments' representations. The
functions here replace it by one line that names the function, its parameters and the arguments.
"""
import ast
import functools
import inspect
import re

_MARK = 'incompatible function arguments'
_CONSTRUCTOR_MARK = 'incompatible constructor arguments'
_SIGNATURE = re.compile(r'^\s+\d+\. (?:[\w.]+)?\((.*)\)(?: -> .*)?$', re.M)


def _short(value):
    text = repr(value)
    return '%s (%s)' % (text if len(text) <= 60 else text[:57] + '...', type(value).__name__)


def _parameters(text, skips_first=False):
    """The parameters of every signature in pybind11's message, as Python writes them."""
    found = []
    for signature in _SIGNATURE.findall(text):
        first = r'(?:self|arg0)' if skips_first else 'self'
        signature = re.sub('^%s: [\\w.]+(?:, )?' % first, '', signature)
        signature = re.sub(r'\barg\d+: ', '', signature)
        signature = re.sub(r'typing\.|collections\.abc\.|(?:caffe\.)?_caffe\.', '', signature)
        signature = re.sub(r'Supports(Int|Float)(?: \| SupportsIndex)?',
                           lambda match: match[1].lower(), signature)
        signature = signature.replace(': object', '')
        if signature not in found:
            found.append(signature)
    return found


def _clear(error, name, is_method, arguments, keywords):
    """The TypeError to raise instead of this one."""
    text = str(error)
    constructs = _CONSTRUCTOR_MARK in text
    if _MARK not in text and not constructs:
        return error
    arguments = arguments[is_method:]
    got = [_short(value) for value in arguments]
    got += ['%s=%s' % (key, _short(value)) for key, value in keywords.items()]
    takes = ' or '.join('(%s)' % one for one in _parameters(text, is_method and not constructs))
    return TypeError('%s takes %s, not (%s)' % (name, takes, ', '.join(got)))


def _split(text):
    """Splits a parameter list at its outer commas."""
    parts, depth = [''], 0
    for character in text:
        depth += (character in '([{') - (character in ')]}')
        if character == ',' and depth == 0:
            parts.append('')
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def _signature(line):
    """The inspect.Signature of the first line of pybind11's docstring, or None."""
    match = re.match(r'\w+\((.*)\)(?: -> .*)?$', line)
    if match is None:
        return None
    parameters = []
    for part in _split(match[1]):
        stars = len(part) - len(part.lstrip('*'))
        kind = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.VAR_POSITIONAL,
                inspect.Parameter.VAR_KEYWORD)[stars]
        head, _, default = part.lstrip('*').partition(' = ')
        try:
            value = ast.literal_eval(default) if default else inspect.Parameter.empty
            parameters.append(inspect.Parameter(head.partition(':')[0], kind, default=value))
        except ValueError:
            return None
    return inspect.Signature(parameters)


def _wrapped(function, name, is_method):
    @functools.wraps(function)
    def call(*arguments, **keywords):
        try:
            return function(*arguments, **keywords)
        except TypeError as error:
            clear = _clear(error, name, is_method, arguments, keywords)
            if clear is error:
                raise
            raise clear from None

    del call.__wrapped__  # inspect cannot read the signature of this built-in
    call.__qualname__ = name
    line, _, text = (function.__doc__ or '').partition('\n')
    signature = _signature(line)
    if signature is not None:
        call.__signature__, call.__doc__ = signature, inspect.cleandoc(text)
    return call


def _wrapped_setter(setter, name):
    def assign(self, value):
        try:
            setter(self, value)
        except TypeError as error:
            if _MARK not in str(error):
                raise
            takes = ' or '.join(_parameters(str(error), skips_first=True))
            raise TypeError('%s takes %s, not %s' % (name, takes, _short(value))) from None

    return assign


def clear_class(cls):
    """Makes methods, constructor and properties of a bound class raise clear TypeErrors."""
    for name, member in list(vars(cls).items()):
        whole = '%s.%s' % (cls.__name__, name)
        if isinstance(member, property):
            if member.fset is not None:
                setattr(cls, name, property(member.fget, _wrapped_setter(member.fset, whole),
                                            member.fdel, member.__doc__))
        elif name == '__init__':
            setattr(cls, name, _wrapped(member, cls.__name__, True))
        elif not name.startswith('__') and not inspect.isclass(member) and callable(member):
            setattr(cls, name, _wrapped(getattr(cls, name), whole, True))


def clear_functions(namespace):
    """Makes the functions of a module's namespace raise clear TypeErrors."""
    for name, member in list(namespace.items()):
        if inspect.isbuiltin(member) and not name.startswith('_'):
            namespace[name] = _wrapped(member, 'caffe.' + name, False)


def clear_all(module):
    """Makes every public class and function of the bindings raise clear TypeErrors."""
    clear_functions(vars(module))
    for name, member in list(vars(module).items()):
        is_enum = hasattr(member, '__members__')
        if inspect.isclass(member) and not name.startswith('_') and not is_enum:
            clear_class(member)
