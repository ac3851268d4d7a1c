#!/usr/bin/env python3
"""Checks includes: folders are a stack, each third-party header has a home, and headers that nothing
outside the library reads are not public.

check_includes.py [ROOT] prints every include that points upward or is outside its header's home, and
every header of include/ that neither tools/ nor python/ reach; it exits 1 if there is one.
"""
import os
import re
import sys

# Folder -> the folders below it that it may include. Its own folder is always allowed.
_ALLOWED = {'core': []}
_ALLOWED['device'] = ['core']
_ALLOWED['memory'] = ['device', 'core']
_ALLOWED['parallel'] = ['memory', 'device', 'core']
for _folder in ('quant', 'data', 'io'):
    _ALLOWED[_folder] = ['memory', 'device', 'core']
_ALLOWED['library'] = ['quant', 'memory', 'device', 'core']
_ALLOWED['layer'] = ['library', 'quant', 'data', 'io', 'parallel', 'memory', 'device', 'core']
_ALLOWED['layers'] = ['layer'] + _ALLOWED['layer']
_ALLOWED['graph'] = ['core']  # and the traits of layers, see _FILES
_ALLOWED['net'] = ['graph', 'layer'] + _ALLOWED['layer']
_ALLOWED['calibration'] = ['net'] + _ALLOWED['net']
_ALLOWED['solver'] = ['net', 'parallel'] + _ALLOWED['net']
_ALLOWED['transform'] = ['net'] + _ALLOWED['net']

# Single headers that are allowed in addition.
_FILES = {'graph': ['caffe/layer/layer_traits.hpp', 'caffe/layer/layer_types.hpp',
                    'caffe/layer/type_of_top.hpp'],
          'data': ['caffe/io/file.hpp', 'caffe/io/proto_io.hpp', 'caffe/io/text_lines.hpp']}

# Third-party headers -> the folders that may include them. Tests may include any.
_HOMES = [
    (r'CL/', [r'src/caffe/device/opencl/', r'src/caffe/library/clblast/']),
    (r'clblast', [r'src/caffe/library/clblast/']),
    (r'dnnl', [r'src/caffe/library/onednn/']),
    (r'gemmlowp/', [r'src/caffe/library/gemmlowp/']),
    (r'(cuda|cuda_runtime|nvrtc)\.h$', [r'src/caffe/device/cuda/']),
    (r'mpi\.h$', [r'src/caffe/parallel/mpi/']),
    (r'(cublas|cudnn)', [r'src/caffe/library/(cublas|cudnn)/']),
    (r'sqlite3\.h$', [r'src/caffe/device/']),
    (r'(.*/)?cblas\.h$', [r'src/caffe/library/openblas/']),
    (r'lmdb\.h$', [r'src/caffe/data/lmdb/']),
    (r'leveldb/', [r'src/caffe/data/leveldb/']),
    (r'zlib\.h$', [r'src/caffe/data/zlib/', r'src/caffe/io/hdf5/']),
    (r'(jpeglib|jerror)\.h$', [r'src/caffe/data/jpeg/']),
    (r'png\.h$', [r'src/caffe/data/png/']),
    (r'hdf5(_hl)?\.h$|H5Cpp\.h$', [r'src/caffe/(data|io)/']),
    (r'spdlog/', [r'src/caffe/core/']),
    (r'CLI/', [r'tools/']),
    (r'pybind11/|Python\.h$', [r'python/']),
    (r'gtest/|gmock/', []),
    (r'benchmark/', [r'tools/benchmark/']),
    (r'google/protobuf/|caffe\.pb\.h$', [r'src/', r'tools/', r'python/']),
]

_INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')


def _folder_of(path):
    """The folder in the stack of include/caffe/X/… or src/caffe/X/…, else None."""
    parts = path.split('/')
    if len(parts) > 3 and parts[0] in ('include', 'src') and parts[1] == 'caffe':
        return parts[2]
    return None


def _fault(root, path, included):
    """The reason why a file may not include a header, or None."""
    for pattern, homes in _HOMES:
        if re.match(pattern, included):
            if path.startswith('tests/') or any(re.match(home, path) for home in homes):
                return None
            return 'may be included only in ' + ', '.join(homes or ['tests/'])
    if included.startswith('compat/') or included.startswith('caffe/compat/'):
        return None if 'compat' in path or path.startswith('tests/') else 'is for users only'
    if included.startswith('../'):
        target = os.path.normpath(os.path.join(os.path.dirname(path), included)).split(os.sep)
        if target[:2] in (['include', 'caffe'], ['src', 'caffe']):
            return 'leaves its folder: write the path from caffe/ on'
    if not included.startswith('caffe/'):
        return None
    parts = included.split('/')
    target = parts[1] if len(parts) > 2 else None
    in_source = not os.path.exists(os.path.join(root, 'include', included))
    if path.startswith('include/') and in_source:
        return 'is not a public header'
    source = _folder_of(path)
    if source is None:
        # Tools and Python may include public headers only; tests may include all headers.
        if in_source and path.split('/')[0] in ('tools', 'python'):
            return 'is not a public header'
        return None
    if target is None or target == source or included in _FILES.get(source, []):
        return None
    if source not in _ALLOWED:
        return None if source == 'compat' else 'is included from %s, unknown to the stack' % source
    if target not in _ALLOWED[source]:
        return 'is not below %s' % source
    return None


def _included(path):
    """The names that a file includes, with the numbers of their lines."""
    with open(path, encoding='utf-8') as file:
        for number, line in enumerate(file, 1):
            match = _INCLUDE.match(line)
            if match:
                yield number, match[1]


def _unread(root, paths):
    """The public headers that no file of tools/ and python/ includes, nor a header that they reach.

    paths: those of all sources.
    """
    unread = {path for path in paths if path.startswith('include/')}
    readers = [path for path in paths if path.split('/')[0] in ('tools', 'python')]
    while readers:
        for _, included in _included(os.path.join(root, readers.pop())):
            path = 'include/' + included
            if path in unread:
                unread.remove(path)
                readers.append(path)
    return sorted(unread)


def check(root):
    """The faults as lines of text."""
    faults, paths = [], []
    for top in ('include', 'src', 'tools', 'python', 'tests'):
        for folder, _, names in sorted(os.walk(os.path.join(root, top))):
            for name in sorted(names):
                if not name.endswith(('.hpp', '.cpp', '.h')):
                    continue
                full = os.path.join(folder, name)
                path = os.path.relpath(full, root).replace(os.sep, '/')
                paths.append(path)
                for number, included in _included(full):
                    fault = _fault(root, path, included)
                    if fault:
                        faults.append('%s:%d: %s %s' % (path, number, included, fault))
    faults += ['%s: no tool and no binding reads it: it belongs beside its source' % path
               for path in _unread(root, paths)]
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
