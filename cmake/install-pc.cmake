# Writes kvshelf.pc for the prefix that is being installed to. This is done at install time because
# `cmake --install DIR --prefix P` chooses the prefix after configuring.
foreach(kind LIBDIR INCLUDEDIR)
  if(IS_ABSOLUTE "${KVSHELF_${kind}}")
    set(KVSHELF_PC_${kind} "${KVSHELF_${kind}}")
  else()
    set(KVSHELF_PC_${kind} "\${prefix}/${KVSHELF_${kind}}")
  endif()
endforeach()
configure_file("${KVSHELF_SOURCE_DIR}/cmake/kvshelf.pc.in" "${KVSHELF_BINARY_DIR}/kvshelf.pc" @ONLY)
file(INSTALL "${KVSHELF_BINARY_DIR}/kvshelf.pc" DESTINATION "${CMAKE_INSTALL_PREFIX}/${KVSHELF_LIBDIR}/pkgconfig")
