# `cmake --install build --prefix DIR`: the commands, the library with its headers, and a package
# that find_package(cortado) of a program finds. A wheel installs its own files instead.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
target_include_directories(caffe INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
set_target_properties(caffe caffe_proto PROPERTIES INSTALL_RPATH "$ORIGIN")
install(TARGETS caffe caffe_proto EXPORT cortado LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/caffe DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN *.hpp)
install(FILES ${caffe_proto_dir}/caffe.pb.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
foreach(main IN LISTS tool_mains)
  cmake_path(GET main STEM name)
  set_target_properties(tool_${name} PROPERTIES
    INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
  install(TARGETS tool_${name} RUNTIME)
endforeach()
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/cortado)
install(EXPORT cortado NAMESPACE cortado:: FILE cortado-targets.cmake
  DESTINATION ${package_folder})
file(WRITE ${CMAKE_BINARY_DIR}/cortado-config.cmake "include(CMakeFindDependencyMacro)
find_dependency(Protobuf)
include(\${CMAKE_CURRENT_LIST_DIR}/cortado-targets.cmake)
")
write_basic_package_version_file(${CMAKE_BINARY_DIR}/cortado-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/cortado-config.cmake
  ${CMAKE_BINARY_DIR}/cortado-config-version.cmake DESTINATION ${package_folder})
