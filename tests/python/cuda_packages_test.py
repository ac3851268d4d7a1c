"""The folder of cuDNN in Python's packages."""
import os
import subprocess
import sys

import caffe
from caffe import cuda_packages

PYTHON = os.path.dirname(os.path.dirname(os.path.abspath(caffe.__file__)))


def variable_after_import(site, **variables):
    """CAFFE_CUDNN after `import caffe` by a Python that finds packages in `site`, too."""
    environment = {name: value for name, value in os.environ.items() if name != 'CAFFE_CUDNN'}
    environment.update(variables, PYTHONPATH=os.pathsep.join([PYTHON, str(site)]))
    script = 'import os, caffe; print(os.environ.get("CAFFE_CUDNN", "not set"))'
    return subprocess.run([sys.executable, '-c', script], env=environment, check=True, text=True,
                          stdout=subprocess.PIPE, timeout=60).stdout.strip()


def test_import_sets_the_folder_of_the_package(tmp_path):
    folder = tmp_path / 'nvidia' / 'cudnn' / 'lib'
    folder.mkdir(parents=True)
    assert variable_after_import(tmp_path) != str(folder), 'the library is not there yet'
    (folder / 'libcudnn.so.9').write_text('')
    assert variable_after_import(tmp_path) == str(folder)
    assert variable_after_import(tmp_path, CAFFE_CUDNN='/own') == '/own'


def test_a_missing_package_has_no_folder(monkeypatch):
    monkeypatch.setattr(sys, 'path', [])
    monkeypatch.delitem(sys.modules, 'nvidia', raising=False)
    monkeypatch.delitem(sys.modules, 'nvidia.cudnn', raising=False)
    assert cuda_packages.cudnn_folder() is None
    monkeypatch.delenv('CAFFE_CUDNN', raising=False)
    cuda_packages.set_environment()
    assert 'CAFFE_CUDNN' not in os.environ
