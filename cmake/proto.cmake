# caffe.proto for C++ here; python/CMakeLists.txt generates the Python module.
set(caffe_proto_dir ${CMAKE_BINARY_DIR}/generated)
file(MAKE_DIRECTORY ${caffe_proto_dir})
add_custom_command(
  OUTPUT ${caffe_proto_dir}/caffe.pb.cc ${caffe_proto_dir}/caffe.pb.h
  COMMAND protobuf::protoc --cpp_out=${caffe_proto_dir} -I${CMAKE_SOURCE_DIR}/proto
          ${CMAKE_SOURCE_DIR}/proto/caffe.proto
  DEPENDS ${CMAKE_SOURCE_DIR}/proto/caffe.proto)
add_library(caffe_proto SHARED ${caffe_proto_dir}/caffe.pb.cc ${caffe_proto_dir}/caffe.pb.h)
target_include_directories(caffe_proto SYSTEM INTERFACE $<BUILD_INTERFACE:${caffe_proto_dir}>)
target_link_libraries(caffe_proto PUBLIC protobuf::libprotobuf)
hide_static_libraries(caffe_proto)
