# The target kvshelf_llhttp: the HTTP/1 parser, from wherever the system has it.
#
# Where there is a libllhttp with a pkg-config file (Debian 13, Fedora) that is used.
# Debian 12 and Ubuntu 24.04 install its C source instead (package node-llhttp), compiled here as its own
# target: it is not our code, so it gets neither our warnings nor banned.h.
pkg_check_modules(LLHTTP IMPORTED_TARGET libllhttp)
if(LLHTTP_FOUND)
  add_library(kvshelf_llhttp INTERFACE)
  target_link_libraries(kvshelf_llhttp INTERFACE PkgConfig::LLHTTP)
else()
  set(source_directory /usr/share/llhttp)
  find_path(LLHTTP_INCLUDE_DIRECTORY llhttp.h PATHS /usr/share/include/llhttp NO_DEFAULT_PATH)
  if(NOT EXISTS ${source_directory}/llhttp.c OR NOT LLHTTP_INCLUDE_DIRECTORY)
    message(FATAL_ERROR "llhttp is missing: pkg-config knows no libllhttp and there is no "
      "${source_directory}/llhttp.c. Run scripts/install-deps.")
  endif()
  add_library(kvshelf_llhttp STATIC EXCLUDE_FROM_ALL
    ${source_directory}/api.c ${source_directory}/http.c ${source_directory}/llhttp.c)
  target_include_directories(kvshelf_llhttp SYSTEM PUBLIC ${LLHTTP_INCLUDE_DIRECTORY})
  target_compile_options(kvshelf_llhttp PRIVATE -w)
endif()
