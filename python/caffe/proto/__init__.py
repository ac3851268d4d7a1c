"""caffe_pb2, which the build makes from proto/caffe.proto."""
