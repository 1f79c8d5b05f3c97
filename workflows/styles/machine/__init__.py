"""Declarative style: the stages of a machine, where they lead, and running one of them.

Lives here: the words of authors (`vocabulary`), the values they make (`stages`), the plan of a class (`stage_plan`), a
run of one stage (`stage_run`) and what its functions read (`machine_context`, `stage_results`, `stage_values`).
"""
