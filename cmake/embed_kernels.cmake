# Writes every file below SOURCE into one C++ table of path and text.
file(GLOB_RECURSE files RELATIVE ${SOURCE} ${SOURCE}/*.h)
list(SORT files)
set(rows "")
foreach(file IN LISTS files)
  file(READ ${SOURCE}/${file} text)
  string(REGEX REPLACE "\\.h$" "" path ${file})
  string(APPEND rows "    {\"${path}\", R\"kernel(${text})kernel\"},\n")
endforeach()
file(WRITE ${OUTPUT} "namespace caffe {
struct EmbeddedText {
  const char* path;
  const char* text;
};
extern const EmbeddedText kEmbeddedTexts[];
const EmbeddedText kEmbeddedTexts[] = {
${rows}    {nullptr, nullptr}};
}  // namespace caffe
")
