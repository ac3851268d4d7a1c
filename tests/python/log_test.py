"""glog's environment variables, as scripts set them before `import caffe`."""
import os
import subprocess
import sys

import caffe

SCRIPT = '''
import os, sys
%s
import caffe
net = caffe.NetSpec()
net.x = caffe.layers.Input(shape=dict(dim=[1]))
open('net.prototxt', 'w').write(str(net.to_proto()))
caffe.Net('net.prototxt', caffe.TEST)
%s
'''


def stderr_of(folder, before='', after=''):
    environment = {name: value for name, value in os.environ.items()
                   if name != 'CAFFE_LOG' and not name.startswith('GLOG_')}
    environment['PYTHONPATH'] = os.path.dirname(os.path.dirname(caffe.__file__))
    result = subprocess.run([sys.executable, '-c', SCRIPT % (before, after)], cwd=folder,
                            env=environment, stderr=subprocess.PIPE, text=True)
    assert result.returncode == 0, result.stderr
    return result.stderr


def test_minloglevel(tmp_path):
    assert '] Initializing net from parameters' in stderr_of(tmp_path)
    assert stderr_of(tmp_path, "os.environ['GLOG_minloglevel'] = '2'") == ''
    assert stderr_of(tmp_path, "os.environ['GLOG_minloglevel'] = '3'") == ''
    # Later calls go before it.
    assert '] again' in stderr_of(tmp_path, "os.environ['GLOG_minloglevel'] = '2'",
                                  "caffe.init_log(0); caffe.log('again')")


def test_log_dir(tmp_path):
    text = stderr_of(tmp_path, "os.environ.update(GLOG_log_dir='.', GLOG_stderrthreshold='2')")
    assert text == ''
    assert '] Initializing net from parameters' in (tmp_path / 'caffe.INFO').read_text()
    # The first level that is set goes before glog's.
    text = stderr_of(tmp_path, "os.environ.update(CAFFE_LOG='warn', GLOG_minloglevel='0')")
    assert text == ''


def test_a_folder_that_cannot_be_written(tmp_path):
    text = stderr_of(tmp_path, "os.environ['GLOG_log_dir'] = '/no/such'")
    first, *rest = text.splitlines()
    assert first.startswith('W') and first.endswith(
        'GLOG_log_dir is ignored: log_dir: no log files can be written to /no/such: '
        'No such file or directory')
    assert '] Initializing net from parameters' in '\n'.join(rest)
