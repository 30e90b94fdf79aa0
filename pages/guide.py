from components.shell import shell
shell("Guide")
