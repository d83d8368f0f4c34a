# Clients of both kinds on one page file (tests/hammer/hammer.py says what is compared). The suite has a run of
# a few seconds; `make hammer` is the long one, with SGLang's own classes.
add_executable(hammer_client tests/hammer/client.c)
target_include_directories(hammer_client PRIVATE ${CMAKE_SOURCE_DIR}/tests)
target_link_libraries(hammer_client PRIVATE kvshelf_test_support kvshelf_objects PkgConfig::CMOCKA)
if(TARGET kvshelf AND KVSHELF_PYTHON)
  add_dependencies(hammer_client kvshelf)
  add_test(NAME hammer/both COMMAND ${KVSHELF_PYTHON} ${CMAKE_SOURCE_DIR}/tests/hammer/hammer.py
    --client $<TARGET_FILE:hammer_client> WORKING_DIRECTORY ${CMAKE_BINARY_DIR})
  set_tests_properties(hammer/both PROPERTIES ENVIRONMENT "KVSHELF=$<TARGET_FILE:kvshelf>" TIMEOUT 300)
endif()
