#!/usr/bin/env python3
"""Checks that no code asks for a type of layer by its name.

What other code needs to know about a layer is in LayerTraits and LayerFacts. check_layer_names.py
[ROOT] prints every string that is the name of a registered type, outside the places that may have
it, and exits 1 if there is one.
"""
import os
import re
import sys

# The code that rewrites files of other versions, and a list of nets to run.
_HOMES = ('src/caffe/io/', 'tools/commands/self_test')
# Passes name the layers that they add.
_ADDED = re.compile(r'set_type\(\s*"\w+"\s*\)')
# Layers name those of their nets, their grouped form, and the layer that they are a case of.
_LAYERS = 'src/caffe/layers/'
_OF_LAYERS = re.compile(r'\b(?:Add|AddElsewhere|Traits)\([^;]*;|\bGroupedForm\{\s*"\w+"')
_MESSAGE = re.compile(r'\+ "Parameter"')  # the end of a message's name
_REGISTERED = re.compile(r'\.Add(?:Untyped|<\w+>)\(\s*"(\w+)"')
# For the tables of element-wise layers.
_ROW = re.compile(r'\{"(\w+)",\s*"y =')
_FUNCTION = re.compile(r'\bROW\((\w+),[^"]*"y =')
_STRING = re.compile(r'"(\w+)"')


def _sources(root, tops):
    for top in tops:
        for folder, _, names in sorted(os.walk(os.path.join(root, top))):
            for name in sorted(names):
                if name.endswith(('.hpp', '.cpp')):
                    full = os.path.join(folder, name)
                    with open(full, encoding='utf-8') as file:
                        yield os.path.relpath(full, root).replace(os.sep, '/'), file.read()


def element_wise(root):
    """The names of the element-wise layers that are rows of a table."""
    return [name for folder in ('src/caffe/layers', 'include/caffe/library')
            for _, text in _sources(root, (folder,))
            for name in _ROW.findall(text) + _FUNCTION.findall(text)]


def layer_names(root):
    """The names of all types that are registered."""
    names = set(element_wise(root))
    for _, text in _sources(root, ('src/caffe/layers', 'python')):
        names.update(_REGISTERED.findall(text))
    return names


def check(root):
    """The faults as lines of text."""
    names = layer_names(root)
    faults = []
    for path, text in _sources(root, ('include', 'src', 'tools', 'python')):
        if path.startswith(_HOMES):
            continue
        for allowed in (_REGISTERED, _ROW, _ADDED, _MESSAGE) + (_OF_LAYERS,) * path.startswith(_LAYERS):
            text = allowed.sub(lambda match: re.sub(r'\w', ' ', match[0]), text)
        for number, line in enumerate(text.split('\n'), 1):
            for name in _STRING.findall(line.split('//')[0]):
                if name in names:
                    faults.append('%s:%d: "%s" is a type of layer; ask LayerTraits or LayerFacts'
                                  % (path, number, name))
    return faults


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(
        os.path.dirname(os.path.abspath(__file__)))
    faults = check(root)
    for fault in faults:
        print(fault)
    sys.exit(1 if faults else 0)


if __name__ == '__main__':
    main()
